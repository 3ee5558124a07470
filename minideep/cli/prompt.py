"""Asks the person at the terminal about pending calls, and shows what each of them would change."""

import difflib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, cast

from ..backends import decode, encode, escaped
from ..errors import ToolError
from ..messages import ToolCall
from ..middleware import edited
from ..state import Approve, Decision, Interrupt, Reject
from .approval import AskBeforeChanges
from .text import safe

QUESTION = "run it? [y]es, [n]o, [a]ll from now on, except .git: "
REFUSE = "it cannot be approved; [n]o: "
MOST_LINES, WIDTH = 40, 160
"""The most lines and columns of a change that are shown."""
MOST_COMPARED = 200_000
"""The largest file, in bytes, that is compared line by line: the time grows with the square of its lines."""


def is_interactive(*streams: Any) -> bool:
    """Return True if a person sits behind all of *streams*: a question on stderr is answered on stdin."""
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


def ask(interrupts: Sequence[Interrupt], guard: AskBeforeChanges) -> dict[str, Decision]:
    """Ask about each call; return the decisions by path and id of the call, without the calls that stay pending."""
    decisions: dict[str, Decision] = {}
    for wait in interrupts:
        runs = guard.allowed and _can_run(wait) and not guard.needs_decision(wait.call)
        decision = Approve() if runs else _asked(wait, guard)
        if decision is None:
            break
        decisions["/".join((*wait.path, wait.call_id))] = decision
    return decisions


def _asked(wait: Interrupt, guard: AskBeforeChanges) -> Decision | None:
    """Ask about one call; return None at the end of the input."""
    _say(f"{wait.call.name}: {wait.reason}")
    for line in preview(wait.call, guard):
        _say(f"  {line if len(line) <= WIDTH else line[:WIDTH] + '…'}")
    while answer := _typed(QUESTION if _can_run(wait) else REFUSE):
        word = answer.strip().lower()
        if _can_run(wait) and word in ("y", "yes", "a", "all"):
            guard.allowed = guard.allowed or word[0] == "a"
            return Approve()
        if word in ("n", "no"):
            return Reject("the person said no")
    return None


def _can_run(wait: Interrupt) -> bool:
    return not wait.decisions or "approve" in wait.decisions


def _typed(question: str) -> str:
    """Return the line that the person types; an empty string at the end of the input."""
    sys.stderr.write(question)
    sys.stderr.flush()
    answer = ""
    try:
        answer = sys.stdin.readline()
    finally:
        if not answer:  # After Ctrl-C or Ctrl-D the next output must begin on a line of its own.
            _say("")
    return answer


def preview(call: ToolCall, guard: AskBeforeChanges) -> list[str]:
    """Return the change that a call would make, as the lines of a short unified diff."""
    target = guard.target(call)
    real = guard.real(call.name, target) if target else None
    path = escaped(target)
    if real is None:
        return []
    try:
        if call.name == "delete":
            return [f"deletes the folder {path} and everything in it" if real.is_dir() else f"deletes {path}"]
        if os.path.lexists(real) and not real.is_file():  # Reading a pipe would block.
            return [f"{path} is not a regular file"]
        before = real.read_bytes() if real.exists() else b""
        after = changed(call, target, before)
    except (OSError, ToolError) as exc:
        return [f"cannot be shown: {exc}"]
    old, new = decode(before), decode(after)
    if old is None or new is None or max(len(before), len(after)) > MOST_COMPARED:
        return [f"{path}: {len(before):,} bytes become {len(after):,}"]
    lines = list(_diff(path, old.text, new.text)) or ["only line endings change"]
    more = [f"… and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    return [*lines[:MOST_LINES], *more]


def changed(call: ToolCall, path: str, before: bytes) -> bytes:
    """Return the bytes of a file after a call of `write_file` or `edit_file`.

    Raises:
        ToolError: the call would fail.
    """
    args = call.args
    if call.name == "write_file":
        return encode(path, str(args.get("content", "")))
    text = decode(before)
    if text is None:
        raise ToolError(f"{path!r} is binary")
    pairs = [[args.get("old_string", ""), args.get("new_string", "")], *_listed(args.get("edits"))]
    done = edited(
        path, text.text, [[str(one) for one in _listed(pair)] for pair in pairs], args.get("replace_all") is True
    )
    return encode(path, done.text, text.encoding)


def _listed(value: Any) -> list[Any]:
    """Return *value* if it is a list: a model may have given anything, and then the call will fail."""
    return cast(list[Any], value) if isinstance(value, list) else []


def _diff(path: str, before: str, after: str) -> Iterator[str]:
    old, new = (text.replace("\r\n", "\n").split("\n") for text in (before, after))
    yield from difflib.unified_diff(old, new, path, f"{path} (proposed)", n=2, lineterm="")


def _say(text: str) -> None:
    print(safe(text).replace("\n", " "), file=sys.stderr, flush=True)  # noqa: T201 - The terminal prints.
