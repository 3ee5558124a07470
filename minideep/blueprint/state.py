"""The record of a blueprint's thread: goal, plan, progress, and a ledger of completed work.

All of it is kept as notes of the main run, so it is saved, forked and read like the rest of the thread. The ledger is
appended to, so what a round writes does not grow with the number of rounds before it.
"""

from typing import Any

import msgspec
from msgspec import field, structs

from ..context import ToolContext
from ..documented import Struct
from ..events import Noted
from ..messages import Message
from ..state import AnyState, FileEntry, behind
from .contracts import MAX_QUESTION, Plan, Subtask, Verdict

OWNER = "blueprint"
FILES = "blueprint.files"
"""Owner of one note for each file, by path: a `FileNote`."""
LEDGER_KEPT = 200
"""Ledger entries that stay in the state, at least. The log keeps all of them."""
REASON_KEPT = 300
"""Characters of an error or a reason that a ledger entry keeps. The run that produced it has the whole text."""


class FileNote(Struct, frozen=True, omit_defaults=True):
    """The metadata of a file, without its content."""

    name: str
    """The artifact's name in the plan. Several versions may share it."""
    role: str
    step: int
    """The step at which it was written."""
    status: str = "done"
    kept: bool = False
    """True if the last answer refers to the file, which is then not evicted."""


Content = str | bytes | None  # Not in `Entry`: from Python 3.14 on its field `bytes` would hide the type.


class Entry(Struct, frozen=True):
    """A virtual file, as `Board.files` shows it."""

    content: Content
    """None if the store or the disk holds it."""
    written_at_step: int
    status: str
    disk_path: str | None
    """The location of the content if it is not in *content*: `sha256:...` in the store, else a path of the backend."""
    bytes: int
    sha256: str
    name: str
    role: str


class LedgerEntry(Struct, frozen=True, omit_defaults=True):
    """The activity of one part, in names and numbers; never the content of a file."""

    turn: int
    step: int
    node: str
    """`planner`, `subagent`, `reflection` or `cleanup`."""
    role: str = ""
    place: int | None = None
    """A subtask's index in its plan."""
    artifact: str = ""
    """The artifact's name in the plan."""
    file: str = ""
    """The name of the file that holds it."""
    bytes: int = 0
    sha256: str = ""
    status: str = ""
    """`done`, `active` or `failed`."""
    error: str = ""
    decision: str = ""
    reason: str = ""
    prompt_bytes: int = 0
    seconds: float = 0.0
    tokens: int = 0
    files: tuple[str, ...] = ()
    """The files that cleanup evicted."""
    unknown: int = 0
    """Replies whose tokens are unknown or not fully reported."""


class Objective(Struct, kw_only=True):
    """The subject of a turn. Written once per turn."""

    goal: str = ""
    said: list[str] = field(default_factory=list[str])
    """The user's messages since the goal was set."""
    earlier: list[list[str]] = field(default_factory=list[list[str]])
    """The last goals before this one, each with its answer."""
    since: int = 0
    """The turn in which the goal was set."""


class Progress(Objective, kw_only=True):
    """The progress of a turn. Each part replaces the whole record, so it is kept small."""

    step: int = 0
    """Subtasks dispatched in the life of the thread."""
    reflection_depth: int = 0
    """Replies of reflection in this turn."""
    decision: Verdict | None = None
    reason: str = ""
    question: str = ""
    final_answer: str = ""
    """As reflection wrote it: with `{{name}}` where an artifact's content belongs."""
    termination: dict[str, str] = field(default_factory=dict[str, str])
    """The reason that the turn ended: `{"reason": "end" | "escalate" | "reflection_cap" | "contract" | "budget"}`. `by`
    names the roles that asked a question.
    """
    node: str = ""
    """The part that ran last."""
    planned_at: int = 0
    """The step at which the plan was made."""
    delivered: list[int] = field(default_factory=list[int])
    failed: list[int] = field(default_factory=list[int])
    """Subtasks, by their index in the plan."""
    clean: bool = True
    """True if every subtask of the last wave delivered what was planned."""
    produced: bool = False
    """True if any artifact has been completed since the goal was set."""
    stopped: dict[str, Any] = field(default_factory=dict[str, Any])
    """The fields with which the next turn goes on, if a budget has stopped this one in the middle of its plan."""
    failure: list[str] = field(default_factory=list[str])
    """Kind and text of the error that a model failed with."""


class Board(Progress):
    """The blackboard that the parts of a blueprint share. Every thread begins with an empty one."""

    messages: list[Message] = field(default_factory=list[Message])
    plan: dict[str, Any] = field(default_factory=dict[str, Any])
    files: dict[str, Entry] = field(default_factory=dict[str, Entry])
    """The virtual files, by path."""
    ledger: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The latest ledger entries, as plain data."""

    @property
    def errors(self) -> list[str]:
        """The errors since the goal was set."""
        failed = (entry for entry in self.ledger if "error" in entry and entry["turn"] >= self.since)
        return [f"{entry.get('artifact') or entry['node']}: {entry['error']}" for entry in failed]

    @property
    def subtasks(self) -> tuple[Subtask, ...]:
        """The subtasks of the plan. Empty while the plan is a person's edit that does not fit the contract."""
        try:
            return msgspec.convert(self.plan, Plan).subtasks
        except msgspec.ValidationError:
            return ()

    def left(self) -> list[int]:
        """Return the subtasks that were not dispatched yet, by index."""
        over = {*self.delivered, *self.failed}
        return [place for place in range(len(self.subtasks)) if place not in over]

    def wave(self) -> list[int]:
        """Return the subtasks that can be dispatched now, by index: those whose files are there."""
        delivered, subtasks = set(self.delivered), self.subtasks
        return [place for place in self.left() if delivered.issuperset(subtasks[place].after)]

    def version(self, subtask: Subtask, name: str) -> str:
        """Return the file that *subtask* means by *name*: that of the last subtask it waits for which delivers this
        name, else *name* itself.
        """
        made = {entry.get("place"): entry["file"] for entry in self._delivered_files()}
        subtasks = self.subtasks
        makers = [place for place in subtask.after if subtasks[place].expected_artifact == name]
        return made.get(makers[-1], name) if makers else name

    def difference(self) -> dict[str, list[str]]:
        """Compare the plan with its results, by name: `missing`, `unexpected` and `failed` artifacts."""
        subtasks = self.subtasks
        planned = {one.expected_artifact for one in subtasks}
        delivered = {subtasks[place].expected_artifact for place in self.delivered}
        written = {str(entry["artifact"]) for entry in self._delivered_files()}
        return {
            "missing": sorted(planned - delivered),
            "unexpected": sorted(written - planned - delivered),
            "failed": [subtasks[place].expected_artifact for place in self.failed],
        }

    def _delivered_files(self) -> list[dict[str, Any]]:
        """The ledger entries of files that subtasks of the current plan have written."""
        return [entry for entry in self.ledger if "file" in entry and entry["step"] > self.planned_at]


def escalated(board: Board, node: str, question: str, reason: str = "escalate", **more: str) -> Board:
    """Return *board* so that the turn ends with *question*; *reason* and *more* become its `termination`."""
    ending: dict[str, Any] = {"question": question[:MAX_QUESTION], "termination": {"reason": reason, **more}}
    return structs.replace(board, node=node, decision="escalate", **ending)


_OBJECTIVE = Objective.__struct_fields__
_PROGRESS = tuple(name for name in Progress.__struct_fields__ if name not in _OBJECTIVE)


def read_board(state: AnyState) -> Board:
    """Return the board of a thread without its messages and files. It shares plan and ledger with *state*."""
    notes = behind(state).notes.get(OWNER, {})
    progress = msgspec.convert({**notes.get("now", {}), **notes.get("aim", {})}, Progress)
    return Board(**structs.asdict(progress), plan=notes.get("plan", {}), ledger=notes.get("ledger", []))


def read_whole_board(state: AnyState) -> Board:
    """Return the board of a thread with its messages and files, for people to look at."""
    board = read_board(state)
    board.messages = list(state.messages)
    for path, note in file_notes(state).items():
        if path in state.files:
            board.files[path] = _as_entry(path, state.files[path], note)
    return board


def file_notes(state: AnyState) -> dict[str, FileNote]:
    """Return what is remembered of each file, by path."""
    notes = behind(state).notes.get(FILES, {})
    return {path: msgspec.convert(note, FileNote) for path, note in notes.items()}


def _as_entry(path: str, file: FileEntry, note: FileNote) -> Entry:
    content = None if file.blob else file.content
    where = f"sha256:{file.sha256}" if file.blob else path if content is None else None
    return Entry(content, note.step, note.status, where, file.size, file.sha256, note.name, note.role)


def save_progress(ctx: ToolContext, board: Board) -> None:
    """Record how far the turn has come."""
    ctx.record(Noted(OWNER, "now", {name: getattr(board, name) for name in _PROGRESS}))


def save_objective(ctx: ToolContext, board: Board) -> None:
    """Record what the turn is about."""
    ctx.record(Noted(OWNER, "aim", {name: getattr(board, name) for name in _OBJECTIVE}))


def save_plan(ctx: ToolContext, plan: Any) -> None:
    """Record another plan: a `Plan` or plain data, `{}` for none."""
    ctx.record(Noted(OWNER, "plan", msgspec.to_builtins(plan)))


def append_to_ledger(ctx: ToolContext, *entries: LedgerEntry) -> None:
    """Append *entries* to the ledger."""
    ledger = behind(ctx.state).notes.get(OWNER, {}).get("ledger", [])
    # Shortened only at twice its length: doing so at every append would write the whole ledger each time.
    if len(ledger) > 2 * LEDGER_KEPT:
        ctx.record(Noted(OWNER, "ledger", ledger[-LEDGER_KEPT:]))
    for entry in entries:
        short = structs.replace(entry, error=entry.error[:REASON_KEPT], reason=entry.reason[:REASON_KEPT])
        ctx.record(Noted(OWNER, "ledger", msgspec.to_builtins(short), "append"))
