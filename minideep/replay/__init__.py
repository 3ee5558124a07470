"""Running a recorded thread again: exactly as it was, for a test, or with another model, prompt or agent.

Reading order: `recording` reads the events of a thread, `script` finds what was recorded at a place, `model` and
`answers` answer from it, `player` gives the inputs again, `variant` gives them to an agent with other parts, and
`comparison` shows both runs.
"""

from .answers import RecordedTool
from .comparison import PlayedCall, PlayedTurn, Replay, ReplayedTurn, led_to
from .model import RecordedModel
from .player import play
from .recording import Recording
from .script import Script
from .variant import Others, replay

__all__ = [
    "Others",
    "PlayedCall",
    "PlayedTurn",
    "RecordedModel",
    "RecordedTool",
    "Recording",
    "Replay",
    "ReplayedTurn",
    "Script",
    "led_to",
    "play",
    "replay",
]
