"""Effects: what the core asks of the loop."""

from typing import Literal

from msgspec import Struct

from .messages import ToolCall


class CallModel(Struct, frozen=True):
    """Ask the model for its next reply."""


class CallTools(Struct, frozen=True):
    """Run these calls."""

    calls: tuple[ToolCall, ...]


class Pause(Struct, frozen=True):
    """Pause the turn: every unanswered call waits for a person."""


class Finish(Struct, frozen=True):
    """End the turn, unless a middleware has more to say."""

    reason: Literal["done", "truncated", "refused"]


class Stop(Struct, frozen=True):
    """Stop the turn: a limit is reached."""

    limit: str


Effect = CallModel | CallTools | Pause | Finish | Stop
