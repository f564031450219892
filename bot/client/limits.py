"""What the client may ask of the service, and of our patience.

These are values alone, so that settings are read without a line of HTTP being loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

POLITE_RPS: Final = 10.0
"""Requests a second that a service which is not our own is asked for at most."""
INIT_GIVE_UP_S: Final = 60.0
"""How long `init` is tried; nothing is at stake before it is answered."""
LONGEST_TIMEOUT_S: Final = 86_400
"""A day: a socket takes no time-out of centuries."""
LEAST_TIMEOUT_S: Final = 1.0
"""What an attempt has of `timeout_s` at least, though it is almost time to give up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one call."""

    timeout_s: float = 30.0
    """One whole attempt, last byte included."""
    give_up_after_s: float = 900.0
    """Without progress."""
    max_rps: float | None = None
    """Requests a second, evenly paced, retries included."""
    max_requests: int | None = None
    """Requests of this call, retries included."""
    max_minutes: float | None = None
    """Length of this call."""
