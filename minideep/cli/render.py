"""Renders turns, threads and lists of threads on a terminal.

No text of a model or a tool can move the cursor or set a colour: control characters are shown, not sent.
"""

import io
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .. import (
    AssistantMessage,
    Boundary,
    Citation,
    Costs,
    Damage,
    Interrupt,
    State,
    ThreadInfo,
    Todo,
    ToolCall,
    ToolMessage,
    Turn,
)
from ..costs import in_words
from ..errors import LimitExceeded
from ..events import (
    Noted,
    Restarted,
    StreamEvent,
    TextDelta,
    TodosWritten,
    ToolEnded,
    ToolStarted,
    ToolWaiting,
    UserSaid,
)
from ..plain_json import to_json
from ..state import Path
from .text import one_line, safe

STYLES = {"pending": "dim", "in_progress": "yellow", "completed": "green"}
ICONS = {"pending": "☐", "in_progress": "⏳", "completed": "☑", "start": "->", "done": "✓", "failed": "✗"}
ASCII = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]", "start": "->", "done": "ok", "failed": "!!"}


class Screen:
    """Prints to standard output; in colour on a terminal, unless NO_COLOR is set."""

    def __init__(self) -> None:
        if isinstance(out := cast(Any, sys.stdout), io.TextIOWrapper):
            out.reconfigure(errors="backslashreplace")  # Characters that the terminal lacks are spelled out.
        self.console: Console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self.icons: dict[str, str] = ICONS if can_say("".join(ICONS.values())) else ASCII
        self._todos: dict[Path, tuple[Todo, ...]] = {}
        self._calls: dict[tuple[Path, str], ToolCall] = {}
        self._midline = self._ran = False

    def line(self, text: str) -> None:
        """Print a line unchanged."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def begin(self, thread: str, using: str) -> None:
        """Show the thread, and the agent or its settings."""
        self._print(f"thread {thread}\n{using}", style="dim")

    def event(self, event: StreamEvent) -> None:
        """Show an event, if it is worth a line."""
        self._ran = True
        match event:
            case TextDelta(text) if not event.path:
                self.console.print(Text(safe(text)), end="")
                self._midline = not text.endswith("\n")
            case ToolStarted(call):
                self._calls[event.path, call.id] = call
                self._step(event.path, self.icons["start"], "cyan", describe(call))
            case ToolEnded():
                self._ended(event)
            case ToolWaiting(_, interrupts):
                waiting = "\n".join(f"{describe(wait.call)} waits: {wait.reason}" for wait in interrupts)
                self._step(event.path, "?", "yellow", waiting)
            case TodosWritten(todos):
                self._list(event.path, todos)
            case UserSaid(message) if event.path or event.by:
                self._step(event.path, ">", "magenta", f"{event.by or event.agent}: {one_line(message.text, 100)}")
            case Noted("blueprint", key, value):
                for line in blueprint_lines(key, value):
                    self._step(event.path, " ", "bold", line)
            case Restarted() if not event.path:
                self._print("… the stream broke; the reply starts again", style="yellow")
            case _:
                pass

    def turn(self, turn: Turn, preview: Callable[[ToolCall], Sequence[str]], *, again: str) -> None:
        """Show how the turn ended, what it cost, and how to resume it: with the command *again*, unless that is empty.

        *preview* returns the change that a pending call would make.
        """
        self._newline()
        for line in sources(turn.citations):
            self._print(line, style="dim")
        if turn.status != "ended":
            self._print(": ".join(filter(None, (turn.status, reason_of(turn)))), style="yellow")
        elif not self._ran:
            self._print("already ended: nothing to resume", style="yellow")
        elif turn.reason != "done":
            self._print(f"the last reply was {turn.reason}", style="yellow")
        for wait in turn.interrupts:
            self._print(f"waits for your decision: {'/'.join((*wait.path, wait.call_id))} {describe(wait.call)}")
            for line in preview(wait.call):
                self._print(f"  {line}")
            if wait.call.name == "approve_plan":
                plan, problem = wait.call.args.get("plan"), wait.call.args.get("problem")
                self._print("\n".join([msgspec.json.format(to_json(plan)).decode(), *([problem] if problem else [])]))
        written = self._todos.get((), ())
        if turn.status != "paused" and (left := sum(todo.status != "completed" for todo in written)):
            self._print(f"todos: {left} of {len(written)} not done", style="yellow")
        self.costs(turn.costs)
        hints = dict.fromkeys(("failed", "cancelled", "exhausted"), f"resume with `{again}`") | {
            "paused": f"decide with {options(turn.interrupts, again)}",
            "escalated": f"continue with `--thread {shlex.quote(turn.thread_id)}`, with your answer as the goal",
        }
        if again and turn.saved and turn.status in hints:  # A turn that was not saved has been logged as such.
            self._print(hints[turn.status], style="dim")

    def costs(self, costs: Costs) -> None:
        """Show the costs of a turn."""
        self._print(summary(costs), style="dim")

    def threads(self, threads: Sequence[ThreadInfo]) -> None:
        if not threads:
            return self._print("no threads", style="dim")
        rows = [
            (one.thread_id, one.status, one.turns, clock(one.updated), size(one.bytes_stored), one.problem or one.title)
            for one in threads
        ]
        return self._table(("thread", "status", "turns", "updated", "stored", "first message"), rows)

    def damages(self, damages: Sequence[Damage], threads: int, segments: int) -> None:
        """Print a line for each damaged row or thread, and a summary."""
        for one in damages:
            where = f"thread {one.thread}" if one.thread else f"row {one.key}"
            self.line(safe(f"{where}: {one.problem}").replace("\n", "\\n"))
        found = "1 problem" if len(damages) == 1 else f"{len(damages)} problems" if damages else "nothing is damaged"
        self.line(f"{threads:,} threads and {segments:,} segments read: {found}")

    def history(self, boundaries: Sequence[Boundary]) -> None:
        """Print a line for each boundary of a thread."""
        rows = [
            (one.at, clock(one.time), one.status, one.steps, one.said, one.text or one.reason) for one in boundaries
        ]
        self._table(("at", "time", "status", "replies", "input", "answer"), rows)

    def files(self, rows: Sequence[tuple[str, int, str, str]]) -> None:
        """Print a line for each file of a thread: path, bytes, role and status."""
        if not rows:
            return self._print("no files", style="dim")
        return self._table(
            ("file", "size", "role", "status"), [(one, size(count), *rest) for one, count, *rest in rows]
        )

    def _table(self, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        table = Table(*heads, box=None, pad_edge=False)
        for row in rows:
            table.add_row(*(Text(safe(one_line(str(cell), 60))) for cell in row))
        self.console.print(table, soft_wrap=False)

    def transcript(self, thread: str, state: State, *, whole: bool, path: Path = ()) -> None:
        """Print the messages of a run, and a line for each of its subagents, or, with *whole*, their messages too."""
        name = f"thread {thread}" if not path else f"subagent {state.agent} {'/'.join(path)}"
        tokens = in_words(state.usage.total, state.usage.unknown)
        self._step(path, "#", "bold", f"{name}: {state.status}, {tokens} tokens")
        for message in state.messages if whole or not path else ():
            self._message(path, message)
        if state.todos and (whole or not path):
            self._list(path, tuple(state.todos))
        for key, child in state.subagents.items():
            self.transcript(thread, child, whole=whole, path=(*path, key))

    def _message(self, path: Path, message: Any) -> None:
        match message:
            case AssistantMessage():
                if message.text:
                    self._step(path, "<", "green", message.text)
                for call in message.calls:
                    self._step(path, self.icons["start"], "cyan", f"{describe(call)} ({call.id})")
            case ToolMessage():
                icon = self.icons["failed" if message.is_error else "done"]
                self._step(path, icon, "dim", f"{message.name}: {one_line(message.text, 160)} ({message.call_id})")
            case _:
                self._step(path, ">", "magenta", message.text)

    def _ended(self, event: ToolEnded) -> None:
        call = self._calls.pop((event.path, event.call_id), None)
        icon, style = (self.icons["failed"], "red") if event.is_error else (self.icons["done"], "green")
        took = f"{event.size:,} characters, {event.seconds * 1000:,.0f} ms"
        self._step(event.path, icon, style, f"{describe(call) if call else event.name} ({took})")

    def _list(self, path: Path, todos: tuple[Todo, ...]) -> None:
        """Show the todo list of a run, unless it is the one that was shown last."""
        if self._todos.get(path, ()) == tuple(todos):
            return
        self._todos[path] = tuple(todos)
        if not todos:
            return
        lines = [
            Text(f"{self.icons[todo.status]} {safe(one_line(todo.content, 200))}", STYLES[todo.status])
            for todo in todos
        ]
        title = Text("Task List" + (f" · {'/'.join(path)}" if path else ""))
        panel = Panel(Group(*lines), title=title, title_align="left", expand=False, safe_box=True)
        self._newline()
        self.console.print(Padding(panel, (0, 0, 0, 2 * len(path)), expand=False), soft_wrap=False)

    def _step(self, path: Path, icon: str, style: str, text: str) -> None:
        self._newline()
        first, *more = safe(text).split("\n")
        indent = "  " * len(path)
        self.console.print(Text.assemble(indent, (icon, style), " ", first))
        for line in more:
            self.console.print(Text(f"{indent}  {line}"))

    def _print(self, text: str, style: str = "") -> None:
        self._newline()
        self.console.print(Text(safe(text), style))

    def _newline(self) -> None:
        if self._midline:
            self.console.print()
            self._midline = False


def options(interrupts: Sequence[Interrupt], again: str) -> str:
    """Return the options of `resume` that all pending calls take."""
    flags = {"approve": "--approve", "reject": "--reject REASON"}
    if any(wait.question for wait in interrupts):  # To answer in place of a tool, one must know what it would say.
        flags["respond"] = "--respond TEXT"
    taken = [flags[kind] for kind in flags if all(not wait.decisions or kind in wait.decisions for wait in interrupts)]
    return " or ".join([f"`{again} {taken[0]}`", *(f"`{flag}`" for flag in taken[1:])] if taken else ["`Agent.resume`"])


def sources(citations: Sequence[Citation]) -> list[str]:
    """Return a numbered line for each source; one that is cited twice has one line."""
    named = (one_line(f"{one.title} {one.url}".strip() or one.quote, 200) for one in citations)
    lines = [f"[{number}] {name}" for number, name in enumerate(dict.fromkeys(filter(None, named)), 1)]
    return ["Sources:", *lines] if lines else []


def reason_of(turn: Turn) -> str:
    """Return why a turn did not end: its question, its error, or its reason."""
    if turn.status == "exhausted":
        return f"{turn.reason}: {turn.error}" if isinstance(turn.error, LimitExceeded) else turn.reason
    return turn.question or (f"{type(turn.error).__name__}: {turn.error}" if turn.error else turn.reason)


def summary(costs: Costs) -> str:
    """Return costs on one line: the three budgets (model replies, tool output, state), tokens, money and time."""
    usage = costs.usage
    cached = f", {usage.cache_read / usage.input:.0%} of it cached" if usage.cache_read and usage.input else ""
    tokens = f"{in_words(usage.input, usage.unknown)} tokens in{cached}, {usage.output:,} out"
    if usage.unknown and not usage.total:
        tokens = "tokens unknown"
    money = f" · ${costs.money:.4f}" if costs.money is not None else ""
    if costs.unpriced:
        money = f" · at least ${costs.money:.4f}" if costs.money else " · $ unknown"
    return (
        f"{costs.steps} model replies · {costs.tool_calls} tool calls, {costs.tool_chars:,} characters · "
        f"state {size(costs.state_bytes)}, +{size(costs.bytes_stored)} ({size(costs.bytes_raw)} raw) · "
        f"{tokens}{money} · "
        f"model {costs.model_s:.2f} s, tools {costs.tools_s:.2f} s, harness {costs.harness_s * 1000:.1f} ms, "
        f"saving {costs.save_s * 1000:.1f} ms"
    )


def describe(call: ToolCall) -> str:
    """Return a call in a few words: its name and its first short argument."""
    if call.name == "task":
        return f"task {call.args.get('subagent_type', '')}: {one_line(str(call.args.get('description', '')), 60)}"
    values = [value for value in call.args.values() if isinstance(value, str | int | float) and value != ""]
    return f"{call.name} {one_line(str(values[0]), 80)}" if values else call.name


def blueprint_lines(key: str, value: Any) -> list[str]:
    """Return the lines that show a note of a blueprint: a plan, or the outcome of one of its nodes."""
    if key == "plan" and value:
        return [f"{place}. {describe_subtask(subtask)}" for place, subtask in enumerate(value["subtasks"], start=1)]
    if key == "ledger" and "node" in value and (line := outcome(value)):
        return [line]
    return []


def describe_subtask(subtask: dict[str, Any]) -> str:
    """Return a subtask of a plan on one line."""
    reads = f", reads {', '.join(subtask['read_files'])}" if subtask.get("read_files") else ""
    return f"{subtask['role']} -> {subtask['expected_artifact']}{reads}: {one_line(subtask['instruction'], 100)}"


def outcome(record: dict[str, Any]) -> str:
    """Return the outcome of a node of a blueprint on one line; empty if it is not worth one."""
    match record["node"]:
        case "subagent":
            about = [size(record["bytes"])] if "file" in record else []
            about += [record["status"], *([record["error"]] if "error" in record else [])]
            return f"{record['role']} -> {record['artifact']}: {', '.join(about)}"
        case "reflection":
            return ": ".join(record[name] for name in ("decision", "error", "reason") if name in record)
        case "cleanup" if "files" in record:
            return f"evicted: {', '.join(record['files'])}"
        case _:
            return ""


def clock(seconds: float) -> str:
    """Return a time for people, in their own time zone."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):  # A damaged event may hold any number.
        return "?"


def size(count: int) -> str:
    """Return a number of bytes for people."""
    return f"{count} B" if count < 1000 else f"{count / 1000:.1f} KB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def can_say(text: str) -> bool:
    """Return whether standard output has the characters of *text*."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
