"""When a part cannot go on: the turn hands over with a question, or fails so that it can be resumed."""

from typing import Any

from msgspec import structs

from .contracts import MAX_RAW, MAX_SAID
from .state import Board
from .structured import Answer


def escalated(board: Board, node: str, question: str, reason: str = "escalate", **more: str) -> Board:
    """The board of a turn that is to hand over with *question*; *reason* and *more* are what its `termination` says."""
    termination = {"reason": reason, **more}
    said = {"question": question[:MAX_SAID], "termination": termination}
    return structs.replace(board, node=node, decision="escalate", **said)


def given_up(board: Board, node: str, answer: Answer[Any]) -> Board:
    """The board after a part that was asked gave nothing that can be used."""
    return _broken_contract(board, node, answer) if answer.violation else _unanswered(board, node, answer)


def _broken_contract(board: Board, node: str, answer: Answer[Any]) -> Board:
    """The board after a part broke its contract each time: a person is shown what it said."""
    kind, said = type(answer.violation).__name__, answer.said[:MAX_RAW]
    question = f"The {node} broke its contract {answer.tries} times ({kind}: {answer.violation}). How shall I go on?"
    return escalated(board, node, f"{question} Its last reply was:\n{said}", "contract")


def _unanswered(board: Board, node: str, answer: Answer[Any]) -> Board:
    """The board after a part's model failed: so does the turn, which may be resumed."""
    turn = answer.turn
    assert turn is not None  # It was asked.
    kind = type(turn.error).__name__ if turn.error else "LimitExceeded"
    return structs.replace(board, failure=[kind, f"{node}: {turn.error or turn.reason}"])
