"""A faithful local Sunpleat service: one pure function from request to answer.

`game` knows the whole API, and answers in a requests session without a socket; `key` is what
signs the tokens of the runs in a folder; `http` serves it all over real HTTP, and is imported
by who needs that.
"""

from bot.service.game import LOCAL_URL, MAX_BODY, Answer, LocalAdapter, Service
from bot.service.key import KEY_FILE, choose_key, foreign_key, load_key, make_key

__all__ = [
    "KEY_FILE",
    "LOCAL_URL",
    "MAX_BODY",
    "Answer",
    "LocalAdapter",
    "Service",
    "choose_key",
    "foreign_key",
    "load_key",
    "make_key",
]
