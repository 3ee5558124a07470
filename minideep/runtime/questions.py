"""Questions that a tool asks a person while it runs, and the answers that it is given when it starts again."""

from typing import Any, TypeGuard

from ..context import CallView, RunView
from ..events import Noted
from ..messages import ToolCall, clean
from ..state import Answer, Edit, Interrupt, OpenCall

OWNER = "questions"
"""The owner of the notes: for each call that has asked, its questions with their answers, the question that waits, the
arguments of a person who edited the call, and the number of the event that asked for the call.
"""

NOTHING: dict[str, Any] = {"answers": [], "asked": None, "edited": None, "by": 0}


def answer_to(call: CallView, question: str) -> str | None:
    """Return the answer to the next question of *call*. If there is none yet, the call waits for it: return None."""
    number, call.asked = call.asked, call.asked + 1
    note, entry, question = _note(call.run, call.entry), call.entry, clean(question)
    # By its words too: after a deploy the tool may ask something else first.
    if note["answers"][number : number + 1] and _is(call.run, note["answers"][number][0], question):
        return note["answers"][number][1]
    if not any(wait.question and wait.path == call.run.path for wait in call.paused):  # One question at a time.
        # The decision to run it ends with the pause, and its arguments must not.
        raw = arguments_of(call.run, entry)
        edited = None if raw is None else raw.decode()
        value = {"answers": note["answers"][:number], "asked": question, "edited": edited, "by": entry.requested_by}
        call.run.record(Noted(OWNER, entry.call.id, value))
        wait = Interrupt(entry.call, question, call.run.path, ("respond", "reject"), question=True)
        call.paused = (*call.paused, wait)
    return None


def note_answer(run: RunView, entry: OpenCall, text: str) -> None:
    """Note the answer to the question that a call waited with."""
    note = _note(run, entry)
    if note["asked"] is not None:  # Otherwise it has this answer: a budget has stopped the call, and it begins again.
        answers = [*note["answers"], [note["asked"], text]]
        run.record(Noted(OWNER, entry.call.id, note | {"answers": answers, "asked": None}))


def arguments_of(run: RunView, entry: OpenCall) -> bytes | None:
    """Return the arguments with which a person lets a call run, perhaps before it asked; None if the model's hold."""
    if isinstance(entry.decision, Edit):
        return entry.decision.raw
    # Who approves a call that was cut short approves the model's arguments, which are those that are shown.
    edited = _note(run, entry)["edited"] if isinstance(entry.decision, Answer) else None
    return None if edited is None else edited.encode()


def edited_call(run: RunView, entry: OpenCall, asked: ToolCall) -> tuple[ToolCall, bool]:
    """Return a call that a person has let run with the person's arguments as its tool takes them, and whether there are
    any: hooks see what runs, as with a model's. If the person has answered a question, note that.
    """
    if isinstance(entry.decision, Answer):
        note_answer(run, entry, clean(entry.decision.text))
    if (raw := arguments_of(run, entry)) is None:
        return asked, False
    call, tool = ToolCall(asked.name, raw, asked.id), run.spec.tools.get(asked.name)
    return (call if tool is None else tool.normalized(call)), True


def asks_again(run: RunView, entry: OpenCall) -> bool:
    """Return whether a call waits with a question that has been answered before."""
    note = _note(run, entry)
    return note["asked"] in [question for question, _ in note["answers"]]


def forget(run: RunView, call_id: str) -> None:
    """Drop the answers of a call that has its result."""
    if call_id in run.view.notes.get(OWNER, ()):
        run.record(Noted(OWNER, call_id, rule="delete"))


def _is(run: RunView, noted: str, question: str) -> bool:
    """Return whether *question* is the one that was *noted*, perhaps as `redact` has left it."""
    redaction: Any = getattr(run.journal, "redaction", None)
    if noted == question or redaction is None:
        return noted == question
    value = redaction.call(Noted(OWNER, "", NOTHING | {"asked": question})).value
    return _is_whole(value) and value["asked"] == noted


def _note(run: RunView, entry: OpenCall) -> dict[str, Any]:
    note: Any = run.view.notes.get(OWNER, {}).get(entry.call.id)
    # Another call may have had this id, and a message instead of its answer.
    return note if _is_whole(note) and note["by"] == entry.requested_by else NOTHING


def _is_whole(note: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(note, dict) and note.keys() == NOTHING.keys()  # `redact` may have removed it.
