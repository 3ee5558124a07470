"""Running a recorded thread again: exactly as it was, for a test, or with another model, prompt or agent.

Reading order: `recording` reads the events of a thread, `script` finds what was recorded at a place, `model` and
`answers` answer from it, `player` gives the inputs again, `comparison` shows both runs.
"""

from .answers import RecordedTool
from .comparison import PlayedCall, PlayedTurn, Replay, ReplayedTurn
from .model import RecordedModel
from .player import play
from .recording import Recording
from .script import Script

__all__ = [
    "PlayedCall",
    "PlayedTurn",
    "RecordedModel",
    "RecordedTool",
    "Recording",
    "Replay",
    "ReplayedTurn",
    "Script",
    "play",
]
