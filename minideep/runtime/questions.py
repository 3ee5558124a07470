"""Questions that a tool asks a person while it runs, and the answers that it is given when it starts again."""

from typing import Any

from ..context import CallView, RunView
from ..events import Noted
from ..messages import clean
from ..state import Edit, Interrupt

OWNER = "questions"
"""The owner of the notes: for each call that has asked, its questions with their answers, the question that waits, and
the arguments of a person who edited the call.
"""


def answer_to(call: CallView, question: str) -> str | None:
    """Return the answer to the next question of *call*. If there is none yet, the call waits for it: return None."""
    number, call.asked = call.asked, call.asked + 1
    note, entry, question = _note(call.run, call.entry.call.id), call.entry, clean(question)
    # By its words too: after a deploy the tool may ask something else first.
    if note["answers"][number : number + 1] and note["answers"][number][0] == question:
        return note["answers"][number][1]
    if not any(wait.question and wait.path == call.run.path for wait in call.paused):  # One question at a time.
        # The decision to run it ends with the pause, and its arguments must not.
        edited = entry.decision.raw.decode() if isinstance(entry.decision, Edit) else note["edited"]
        value = {"answers": note["answers"][:number], "asked": question, "edited": edited}
        call.run.record(Noted(OWNER, entry.call.id, value))
        wait = Interrupt(entry.call, question, call.run.path, ("respond", "reject"), question=True)
        call.paused = (*call.paused, wait)
    return None


def note_answer(run: RunView, call_id: str, text: str) -> bytes | None:
    """Note the answer to the question that a call waited with. Return the arguments that a person gave it, if any."""
    note = _note(run, call_id)
    if note["asked"] is not None:  # Otherwise it has this answer: a budget has stopped the call, and it begins again.
        answers = [*note["answers"], [note["asked"], text]]
        run.record(Noted(OWNER, call_id, note | {"answers": answers, "asked": None}))
    return None if note["edited"] is None else note["edited"].encode()


def forget(run: RunView, call_id: str) -> None:
    """Drop the answers of a call that has its result."""
    if call_id in run.view.notes.get(OWNER, ()):
        run.record(Noted(OWNER, call_id, rule="delete"))


def _note(run: RunView, call_id: str) -> dict[str, Any]:
    return run.view.notes.get(OWNER, {}).get(call_id) or {"answers": [], "asked": None, "edited": None}
