"""What a blueprint remembers of its thread: the goal, the plan, where it stands, and what came of it.

It is kept as notes of the main run, so it is saved, forked and read like everything else. The ledger is appended to, an
entry for each thing that was done: what a round writes does not depend on how many there were.
"""

from typing import Any

import msgspec
from msgspec import Struct, field, structs

from ..context import ToolContext
from ..events import Noted
from ..messages import Message
from ..state import FileEntry, State
from .contracts import Plan, Subtask, Verdict

OWNER = "blueprint"
FILES = "blueprint.files"
"""Whose notes say of each file, by its path, what the state does not: `Filed`."""
LEDGER_KEPT = 200
"""Entries of the ledger that stay in the state, at least; the log keeps all."""

LINE_KEPT = 300
"""Characters of an error or a reason that an entry keeps; whoever said it has it whole in its own run."""


class Filed(Struct, frozen=True, omit_defaults=True):
    """What is remembered of a file besides its content."""

    name: str
    """The artifact's name, as the plan says it; several versions may have one name."""
    role: str
    step: int
    """When it was written."""
    status: str = "done"
    kept: bool = False
    """Whether the last answer stands on it: then it outlives the turn."""


class Entry(Struct, frozen=True):
    """A file as the virtual files show it."""

    content: str | bytes | None
    """None where the store or the disk holds it."""
    written_at_step: int
    status: str
    disk_path: str | None
    """Where the content is if not here: `sha256:...` in the store, else a path of the backend."""
    bytes: int
    sha256: str
    name: str
    role: str


class Record(Struct, frozen=True, omit_defaults=True):
    """An entry of the ledger: what one part did. It holds no content."""

    turn: int
    step: int
    node: str
    """`planner`, `subagent`, `reflection` or `cleanup`."""
    role: str = ""
    place: int | None = None
    """Of a subtask: where it stands in its plan."""
    artifact: str = ""
    """The name that the plan gave it."""
    file: str = ""
    """Where it is kept."""
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
    """What was evicted."""
    unknown: int = 0
    """Replies whose tokens are not known, or not all of them."""


class Aim(Struct, kw_only=True):
    """What the turn is about. Written once a turn."""

    goal: str = ""
    said: list[str] = field(default_factory=list[str])
    """What the person has said since the goal was set."""
    earlier: list[list[str]] = field(default_factory=list[list[str]])
    """The last goals before it, each with its answer."""
    since: int = 0
    """The turn in which the goal was set."""


class Now(Aim, kw_only=True):
    """Where the turn stands. Replaced as a whole by each part that is done, so it is small."""

    step: int = 0
    """Subtasks dispatched in the life of the thread."""
    reflection_depth: int = 0
    """How often reflection was asked in this turn."""
    decision: Verdict | None = None
    reason: str = ""
    question: str = ""
    final_answer: str = ""
    """As reflection gave it: artifacts are named in it, not filled in."""
    termination: dict[str, str] = field(default_factory=dict[str, str])
    """Why the turn handed over: `{"reason": "end" | "escalate" | "reflection_cap" | "contract" | "budget"}`; `by` says
    which role asked, if one did."""
    node: str = ""
    """The part that was done last."""
    planned_at: int = 0
    """The step at which the plan was made."""
    delivered: list[int] = field(default_factory=list[int])
    failed: list[int] = field(default_factory=list[int])
    """Subtasks of the plan, by their place."""
    clean: bool = True
    """Whether nothing of the last wave went wrong."""
    produced: bool = False
    """Whether any artifact was done since the goal was set."""
    failure: list[str] = field(default_factory=list[str])
    """Kind and text of what a model failed with."""


class Board(Now):
    """All that a blueprint remembers. A new one is empty, and that is where every thread begins."""

    messages: list[Message] = field(default_factory=list[Message])
    plan: dict[str, Any] = field(default_factory=dict[str, Any])
    files: dict[str, Entry] = field(default_factory=dict[str, Entry])
    """The virtual files, by path."""
    ledger: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What was done, lately: `Record`s as plain data."""

    @property
    def errors(self) -> list[str]:
        """What went wrong since the goal was set."""
        failed = (entry for entry in self.ledger if "error" in entry and entry["turn"] >= self.since)
        return [f"{entry.get('artifact') or entry['node']}: {entry['error']}" for entry in failed]

    @property
    def subtasks(self) -> tuple[Subtask, ...]:
        """Those of the plan; none while it is an edit that is no plan."""
        try:
            return msgspec.convert(self.plan, Plan).subtasks
        except msgspec.ValidationError:
            return ()

    def left(self) -> list[int]:
        """The subtasks that were not dispatched."""
        over = {*self.delivered, *self.failed}
        return [place for place in range(len(self.subtasks)) if place not in over]

    def wave(self) -> list[int]:
        """The subtasks that can be dispatched now: those whose files are there."""
        delivered, subtasks = set(self.delivered), self.subtasks
        return [place for place in self.left() if delivered.issuperset(subtasks[place].after)]

    def version(self, subtask: Subtask, name: str) -> str:
        """What a subtask means by *name*: the file of the last one that it waits for under it, or the name itself."""
        made = {entry.get("place"): entry["file"] for entry in self.ledger if self._of_this_plan(entry)}
        subtasks = self.subtasks
        makers = [place for place in subtask.after if subtasks[place].expected_artifact == name]
        return made.get(makers[-1], name) if makers else name

    def _of_this_plan(self, entry: dict[str, Any]) -> bool:
        """Whether an entry tells of a file that a subtask of the plan has delivered."""
        return "file" in entry and entry["step"] > self.planned_at

    def difference(self) -> dict[str, list[str]]:
        """The plan against what came of it, by name: what is missing, what nobody planned, and what failed."""
        subtasks = self.subtasks
        planned = {one.expected_artifact for one in subtasks}
        there = {subtasks[place].expected_artifact for place in self.delivered}
        named = {str(entry["artifact"]) for entry in self.ledger if self._of_this_plan(entry)}
        failed = [subtasks[place].expected_artifact for place in self.failed]
        return {
            "missing": sorted(planned - there),
            "unexpected": sorted(named - planned - there),
            "failed": failed,
        }


_AIM = Aim.__struct_fields__
_NOW = tuple(name for name in Now.__struct_fields__ if name not in _AIM)


def read(state: State) -> Board:
    """The board of a thread, without its messages and files. It shares the plan and the ledger with the state."""
    notes = state.notes.get(OWNER, {})
    now = msgspec.convert({**notes.get("now", {}), **notes.get("aim", {})}, Now)
    return Board(**structs.asdict(now), plan=notes.get("plan", {}), ledger=notes.get("ledger", []))


def read_whole(state: State) -> Board:
    """The board of a thread as a person may want to see it."""
    board = read(state)
    board.messages, board.files = state.messages, entries(state)
    return board


def filed(state: State) -> dict[str, Filed]:
    """What is remembered of each file, by path."""
    notes = state.notes.get(FILES, {})
    return {path: msgspec.convert(note, Filed) for path, note in notes.items()}


def entries(state: State) -> dict[str, Entry]:
    """The virtual files, by path."""
    return {
        path: entry_of(path, state.files[path], about) for path, about in filed(state).items() if path in state.files
    }


def entry_of(path: str, file: FileEntry, about: Filed) -> Entry:
    content = None if file.blob else file.content
    where = f"sha256:{file.sha256}" if file.blob else path if content is None else None
    return Entry(content, about.step, about.status, where, file.size, file.sha256, about.name, about.role)


def note(ctx: ToolContext, board: Board) -> None:
    """Remember where the turn stands."""
    ctx.record(Noted(OWNER, "now", {name: getattr(board, name) for name in _NOW}))


def note_aim(ctx: ToolContext, board: Board) -> None:
    """Remember what the turn is about."""
    ctx.record(Noted(OWNER, "aim", {name: getattr(board, name) for name in _AIM}))


def note_plan(ctx: ToolContext, plan: Any) -> None:
    """Remember another plan, a `Plan` or plain data; `{}` is none."""
    ctx.record(Noted(OWNER, "plan", msgspec.to_builtins(plan)))


def enter(ctx: ToolContext, *records: Record) -> None:
    """Enter into the ledger what was done."""
    ledger = ctx.state.notes.get(OWNER, {}).get("ledger", [])
    if len(ledger) > 2 * LEDGER_KEPT:
        ctx.record(Noted(OWNER, "ledger", ledger[-LEDGER_KEPT:]))
    for one in records:
        short = structs.replace(one, error=one.error[:LINE_KEPT], reason=one.reason[:LINE_KEPT])
        ctx.record(Noted(OWNER, "ledger", msgspec.to_builtins(short), "append"))
