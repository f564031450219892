"""The game behind its API: one pure function from request to answer.

`Service.answer` knows the whole API, and `LocalAdapter` mounts it in a requests session without
a socket. Everything that a run needs is in its signed token, so the same token and action
always bring the same answer.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import parse_qs

import requests
from itsdangerous import BadSignature, Signer
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from bot import rules
from bot.client.redirects import ACTION_PATH, INIT_PATH
from bot.errors import ActionError, BrokenAnswer, Unreadable
from bot.rules import State
from bot.wire.fields import legal_actions, public_fields
from bot.wire.values import parse_json

LOCAL_URL: Final = "http://local"
"""Address at which `LocalAdapter` is mounted; it is never looked up."""
MAX_BODY: Final = 64 * 2**10
"""Bytes of the longest request body that is read."""

SPEC: Final[Mapping[str, object]] = {
    "goal": "Restore the garland to 1, 2, …, n with every sun face showing.",
    "scoring": "A cleared garland earns 100 + 25 n + 10 for each move left of par plus four.",
    "rules": "A flip reverses the first count pennants and turns each of them over.",
    "actions": [
        {"type": "flip", "count": "1 to n, while playing"},
        {"type": "restart", "when": "playing; costs a leaf"},
        {"type": "next", "when": "cleared"},
        {"type": "retry", "when": "out of moves, with leaves left"},
        {"type": "bank", "when": "any time before the end"},
    ],
}
"""What `init` says of the game."""


class Answer(NamedTuple):
    """One HTTP answer; its body is JSON."""

    status: int
    body: bytes


class Service:
    """The game behind its API, with a key that signs the tokens."""

    def __init__(self, key: bytes) -> None:
        """Sign tokens with `key`; only tokens of the same key are taken."""
        self._signer = Signer(key, key_derivation="none")

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        """Answer a request.

        Args:
            method: the HTTP method.
            target: path and query.
            body: of the request, whatever it is.
        """
        path, _, query = target.partition("?")
        handlers: dict[str, tuple[str, Callable[[], Answer]]] = {
            INIT_PATH: ("GET", partial(self._init, query)),
            ACTION_PATH: ("POST", partial(self._action, body)),
        }
        if path not in handlers:
            return refuse(404, f"no such path: {path}")
        expected, handler = handlers[path]
        if method != expected:
            return refuse(405, f"{path} takes {expected}")
        if len(body) > MAX_BODY:
            return TOO_LONG
        return handler()

    def knows(self, token: str) -> bool:
        """Tell whether `token` was signed with the key of this service."""
        return self._read_token(token) is not None

    def _init(self, query: str) -> Answer:
        seed = parse_qs(query).get("seed", ["0"])[-1]
        if not re.fullmatch(r"[+-]?\d+(\.\d+)?", seed):
            return refuse(400, "seed is a number")
        return _json(200, {**self._public(rules.fresh()), "spec": SPEC})

    def _action(self, body: bytes) -> Answer:
        try:
            request = parse_json(body)
        except (BrokenAnswer, Unreadable):
            return refuse(400, "the body is no JSON")
        if not isinstance(request, dict):
            return refuse(400, "the body is no JSON object")
        state = self._read_token(request.get("stateToken"))
        if state is None:
            return refuse(400, "stateToken was not signed by this service")
        try:
            action = rules.parse_action(request.get("action"))
            after = rules.apply(state, action)
        except ActionError as exc:
            legal = legal_actions(state)
            return _json(200, {"ok": False, "reason": str(exc), "legalActions": legal})
        return _json(200, self._public(after))

    def _public(self, state: State) -> dict[str, object]:
        return {
            "ok": True,
            "stateToken": self._signer.sign(_pack(state)).decode("ascii"),
            "state": public_fields(state),
            "legalActions": legal_actions(state),
            "score": state.score,
            "gameOver": state.phase == rules.ENDED,
        }

    def _read_token(self, token: object) -> State | None:
        if not isinstance(token, str):
            return None
        try:
            return _unpack(self._signer.unsign(token).decode("ascii"))
        except (BadSignature, UnicodeEncodeError):
            return None


def _pack(state: State) -> str:
    """Write a state as the text that a token signs: its fields in their order."""
    garland = ",".join(map(str, state.garland))
    values = (getattr(state, name) for name in State.__slots__)
    return "/".join(garland if isinstance(value, tuple) else str(value) for value in values)


def _unpack(text: str) -> State:
    """Read back what `_pack` wrote; the signature vouches for its form."""
    phase, board, index, garland, *counts, end_reason, turn = text.split("/")
    used, budget, leaves, score, cleared, award = map(int, counts)
    return State(
        phase=phase,
        board_number=int(board),
        template_index=int(index),
        garland=tuple(map(int, garland.split(","))),
        moves_used=used,
        move_budget=budget,
        leaves=leaves,
        score=score,
        cleared_boards=cleared,
        last_award=award,
        end_reason=None if end_reason == str(None) else end_reason,
        turn=int(turn),
    )


_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode


def _json(status: int, value: object) -> Answer:
    return Answer(status, _ENCODE(value).encode("ascii"))


def refuse(status: int, reason: str) -> Answer:
    """Return the answer to a request that is none of the API's."""
    return _json(status, {"ok": False, "reason": reason})


TOO_LONG: Final = refuse(413, f"a body has at most {MAX_BODY} bytes")
"""The answer to a body beyond `MAX_BODY`, however much of it came."""

_HEADERS: Final = CaseInsensitiveDict({"Content-Type": "application/json"})


class LocalAdapter(BaseAdapter):
    """A transport of requests that asks a service in this process."""

    def __init__(self, service: Service) -> None:
        """Take the service to ask."""
        super().__init__()
        self._service = service

    def send(
        self, request: requests.PreparedRequest, *_: object, **__: object
    ) -> requests.Response:
        """Return the service's answer as if it had come over the network."""
        body = request.body or b""
        answer = self._service.answer(
            request.method or "GET",
            request.path_url,
            body if isinstance(body, bytes) else str(body).encode(),
        )
        response = requests.Response()
        response.request = request
        response.url = request.url or ""
        response.status_code = answer.status
        response.headers = _HEADERS
        response.raw = _Body(answer.body)
        return response

    def close(self) -> None:
        """Do nothing: there is no connection."""


class _Body(io.BytesIO):
    """A body that is read as urllib3 reads one."""

    def read(self, amount: int | None = -1, *, decode_content: bool = False) -> bytes:
        del decode_content  # it is plain
        return super().read(amount)
