"""Asks the person at the terminal about calls that wait, and shows what each of them would change."""

import difflib
import os
import sys
from collections.abc import Iterator, Sequence

from ..backends import decode, encode, escaped
from ..errors import ToolError
from ..messages import ToolCall
from ..middleware import replacement
from ..state import Approve, Decision, Interrupt, Reject
from .asking import AskBeforeChanges
from .text import safe

QUESTION = "run it? [y]es, [n]o, [a]ll from now on, except .git: "
MOST_LINES, WIDTH = 40, 160
"""What is shown of a change."""
MOST_COMPARED = 200_000
"""Bytes of a file that is compared line by line: that takes time with their square."""


def somebody_is_there() -> bool:
    """Whether a person can be asked: who types at a terminal, and sees the question there."""
    return all(stream is not None and not stream.closed and stream.isatty() for stream in (sys.stdin, sys.stderr))


def ask(interrupts: Sequence[Interrupt], asking: AskBeforeChanges) -> dict[str, Decision]:
    """The person's decisions, by the path and id of their calls; without those that the person leaves waiting."""
    decisions: dict[str, Decision] = {}
    for wait in interrupts:
        decision = Approve() if asking.allowed and not asking.needs_decision(wait.call) else _asked(wait, asking)
        if decision is None:
            break
        decisions["/".join((*wait.path, wait.call_id))] = decision
    return decisions


def _asked(wait: Interrupt, asking: AskBeforeChanges) -> Decision | None:
    """The decision about one call; None at the end of the input."""
    _say(f"{wait.call.name}: {wait.reason}")
    for line in preview(wait.call, asking):
        _say(f"  {line if len(line) <= WIDTH else line[:WIDTH] + '…'}")
    while True:
        match _typed():
            case "":
                return None
            case answer if (word := answer.strip().lower()) in ("y", "yes", "a", "all"):
                asking.allowed = asking.allowed or word[0] == "a"
                return Approve()
            case answer if answer.strip().lower() in ("n", "no"):
                return Reject("the person said no")
            case _:
                pass


def _typed() -> str:
    """A line that the person types; nothing at the end of the input."""
    sys.stderr.write(QUESTION)
    sys.stderr.flush()
    answer = ""
    try:
        answer = sys.stdin.readline()
    finally:
        if not answer:  # Ctrl-C or Ctrl-D: what is printed next begins a line.
            _say("")
    return answer


def preview(call: ToolCall, asking: AskBeforeChanges) -> list[str]:
    """What a call would change, as the lines of a short unified diff."""
    target = asking.target(call)
    real = asking.real(call.name, target) if target else None
    path = escaped(target)
    if real is None:
        return []
    try:
        if call.name == "delete":
            return [f"deletes the folder {path} with all that is in it" if real.is_dir() else f"deletes {path}"]
        if os.path.lexists(real) and not real.is_file():  # A pipe would be waited for.
            return [f"{path} is no regular file"]
        before = real.read_bytes() if real.exists() else b""
        after = changed(call, target, before)
    except (OSError, ToolError) as exc:
        return [f"cannot be shown: {exc}"]
    old, new = decode(before), decode(after)
    if old is None or new is None or max(len(before), len(after)) > MOST_COMPARED:
        return [f"{path}: {len(before):,} bytes become {len(after):,}"]
    lines = list(_diff(path, old.text, new.text)) or ["only the ends of lines change"]
    more = [f"… and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    return [*lines[:MOST_LINES], *more]


def changed(call: ToolCall, path: str, before: bytes) -> bytes:
    """The bytes of a file after a call of `write_file` or `edit_file`.

    Raises:
        ToolError: the call would be an error.
    """
    args = {name: str(value) for name, value in call.args.items()}
    if call.name == "write_file":
        return encode(path, args.get("content", ""))
    text = decode(before)
    if text is None:
        raise ToolError(f"{path!r} is binary")
    every = call.args.get("replace_all") is True
    edit = replacement(path, text.text, args.get("old_string", ""), args.get("new_string", ""), every)
    return encode(path, text.text.replace(edit.old, edit.new), text.encoding)


def _diff(path: str, before: str, after: str) -> Iterator[str]:
    old, new = (text.replace("\r\n", "\n").split("\n") for text in (before, after))
    yield from difflib.unified_diff(old, new, path, f"{path} (proposed)", n=2, lineterm="")


def _say(text: str) -> None:
    print(safe(text).replace("\n", " "), file=sys.stderr, flush=True)  # noqa: T201 - This is what a terminal is for.
