"""The loops that are compared: each mode plays in this process and prints its seconds."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import requests

from bot import rules, strategy
from bot.cli import play, process
from bot.client.redirects import ACTION_PATH, INIT_PATH
from bot.service import Service
from bot.strategy import Goal
from bot.verify import Verification

FAR_AWAY = Goal(10**9)


def bare_http(base_url: str, actions: int) -> float:
    """Play as the shortest program does: a requests session, `post`, `json`."""
    session = requests.Session()
    answer = session.get(base_url + INIT_PATH, params={"seed": 7}).json()
    state = rules.fresh()
    began_at = time.perf_counter()
    for _ in range(actions):
        action = strategy.decide(state, FAR_AWAY)
        request = {"stateToken": answer["stateToken"], "action": action.to_json()}
        answer = session.post(base_url + ACTION_PATH, json=request).json()
        state = rules.apply(state, action)
    return time.perf_counter() - began_at


def raw_http(base_url: str, actions: int) -> float:
    """Play as fast as can be: requests that are written by hand, on one socket."""
    url = urlsplit(base_url)
    with socket.create_connection((url.hostname, url.port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = sock.makefile("rb")
        head = f"Host: {url.netloc}\r\nContent-Type: application/json\r\n"

        def ask(method: str, path: str, body: bytes) -> dict[str, str]:
            length = f"Content-Length: {len(body)}\r\n" if body else ""
            sock.sendall(f"{method} {path} HTTP/1.1\r\n{head}{length}\r\n".encode() + body)
            size = 0
            while (line := stream.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    size = int(value)
            answer: dict[str, str] = json.loads(stream.read(size))
            return answer

        token = ask("GET", f"{INIT_PATH}?seed=7", b"")["stateToken"]
        state = rules.fresh()
        began_at = time.perf_counter()
        for _ in range(actions):
            action = strategy.decide(state, FAR_AWAY)
            request = {"stateToken": token, "action": action.to_json()}
            token = ask("POST", ACTION_PATH, json.dumps(request).encode())["stateToken"]
            state = rules.apply(state, action)
        return time.perf_counter() - began_at


def whole_bot(arguments: list[str]) -> float:
    """Play with everything on: journal, comparison, progress; starting up is left out."""
    with tempfile.TemporaryDirectory() as folder:
        began_at = time.perf_counter()
        process.run([play.play.name or "", "--runs-dir", folder, *arguments])
        return time.perf_counter() - began_at


def pure_service(bank_at: int, *, is_kept: bool = False) -> float:
    """Compute the answers of a run, and JSON both ways, and nothing else.

    Where `is_kept`, each request is also written to a file, and synced at each award: what a
    disk takes of any journal.
    """
    service = Service(b"key")
    state = rules.fresh()
    goal = Goal(bank_at)
    plan = []
    while state.phase != rules.ENDED:
        action = strategy.decide(state, goal)
        before, state = state, rules.apply(state, action)
        plan.append((action, state.score > before.score))
    with tempfile.TemporaryFile() as file:
        began_at = time.perf_counter()
        answer = json.loads(service.answer("GET", INIT_PATH, b"").body)
        for action, is_award in plan:
            request = {"stateToken": answer["stateToken"], "action": action.to_json()}
            body = json.dumps(request).encode()
            answer = json.loads(service.answer("POST", ACTION_PATH, body).body)
            if is_kept:
                os.write(file.fileno(), body + b"\n")
            if is_kept and is_award:
                os.fdatasync(file.fileno())
        return time.perf_counter() - began_at


def read_lines(path: Path) -> float:
    """Read every line of a journal as JSON."""
    began_at = time.perf_counter()
    with path.open("rb") as lines:
        for line in lines:
            json.loads(line)
    return time.perf_counter() - began_at


def verify(path: Path) -> float:
    """Hold every line of a journal against the rules."""
    began_at = time.perf_counter()
    Verification(path).read_all()
    return time.perf_counter() - began_at


def main() -> None:
    """Run the mode that the first argument names."""
    mode, *rest = sys.argv[1:]
    if mode == "bare":
        print(bare_http(rest[0], int(rest[1])))
    elif mode == "raw":
        print(raw_http(rest[0], int(rest[1])))
    elif mode == "bot":
        print(whole_bot(rest))
    elif mode in ("pure", "kept"):
        print(pure_service(int(rest[0]), is_kept=mode == "kept"))
    elif mode == "read":
        print(read_lines(Path(rest[0])))
    elif mode == "verify":
        print(verify(Path(rest[0])))


main()
