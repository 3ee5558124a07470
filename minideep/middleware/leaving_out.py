"""Built-in tools that an agent is to do without: they go, and so does every sentence that names them."""

import re
from collections.abc import Collection, Iterable, Sequence
from copy import copy

from ..errors import ConfigError
from ..kinds import shown
from ..mistakes import did_you_mean
from ..ports import Middleware
from ..tools import Tool
from .context.compaction import SummarizationMiddleware
from .context.offload import OffloadMiddleware
from .filesystem import FilesystemMiddleware
from .shell import ShellMiddleware
from .todos import TodoListMiddleware

FILES = ("ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep")
BUILT_IN = ("write_todos", *FILES, "execute", "task", "compact_conversation", "general-purpose")
"""What can be left out: tools, and the subagent that is added to the user's."""
WHOLE: dict[type[Middleware], str] = {
    TodoListMiddleware: "write_todos",
    FilesystemMiddleware: "read_file",
    OffloadMiddleware: "read_file",
    ShellMiddleware: "execute",
}
"""Middleware that goes with its tool: large results are not put into files that nothing reads."""
CHANGES = ("write_file", "edit_file")
PHRASES: dict[str, Sequence[str]] = {
    ", then change it": CHANGES,
    "Read a file before you edit or replace it, and prefer editing one to creating another: make only the files that "
    "the task needs.": CHANGES,
    "Keep large material (sources, data, drafts) in files and refer to it by path instead of repeating it.": CHANGES,
    " It shares your files, not this conversation or your todos.": ("read_file",),
    " or your todos": ("write_todos",),
    "The messages stay readable in a file that the summary names.": ("read_file",),
}
"""Words that say nothing once all of these tools are gone, though they name none."""


def checked_names(without: Iterable[str], owner: str) -> frozenset[str]:
    """Return what the agent *owner* is to do without.

    Raises:
        ConfigError: it is nothing that can be left out, or the agent could not work without it.
    """
    names = frozenset(without)
    for name in sorted(names.difference(BUILT_IN)):
        meant = did_you_mean(name, BUILT_IN, f"; it may name {', '.join(BUILT_IN)}")
        raise ConfigError(f"agent {owner!r}: without names {shown(name)}, which is not built in{meant}")
    if "read_file" in names and (left := [name for name in FILES if name not in names]):
        problem = f"agent {owner!r}: without names 'read_file' but leaves {', '.join(left)}"
        raise ConfigError(f"{problem}; leave all of them out, as an agent must read the files that it finds")
    return names


def trimmed(parts: Iterable[Middleware], names: Collection[str], given: Collection[Middleware]) -> list[Middleware]:
    """Return *parts*, which only agents without these *names* have, without the tools and the words about them. Those
    that the user has *given* stay as they are.
    """
    kept = [part for part in parts if part in given or not any(isinstance(part, kind) for kind in _whole(names))]
    for part in kept:
        if part in given:
            continue
        part.prompt = reworded(part.prompt, names)
        part.tools = [_reworded(tool, names) for tool in part.tools if tool.name not in names]
        if isinstance(part, SummarizationMiddleware):
            part.names_file = "read_file" not in names
    return kept


def _whole(names: Collection[str]) -> list[type[Middleware]]:
    return [kind for kind, name in WHOLE.items() if name in names]


def _reworded(tool: Tool, names: Collection[str]) -> Tool:
    changed = copy(tool)
    changed.description = reworded(tool.description, names)
    return changed


def reworded(text: str, names: Collection[str]) -> str:
    """Return *text* without what it says about the tools *names*: what stands in brackets, the clauses after a
    semicolon, and the sentences that begin with it.

    >>> reworded("Find files. For contents use `grep`. Error if missing (try `ls`); see `grep`.", {"grep", "ls"})
    'Find files. Error if missing.'
    """
    for phrase, tools in PHRASES.items():
        if all(name in names for name in tools):
            text = text.replace(phrase, "")
    named = re.compile("|".join(f"`{name}`(?!:)" for name in names))  # `glob`: is also an argument of grep.
    text = re.sub(r"\s*\([^()]*\)", lambda found: "" if named.search(found[0]) else found[0], text)
    sentences = re.split(r"(?<=\.)(?=\s)", text)
    return re.sub(r" {2,}|(?<=\n) +", " ", "".join(_clauses(sentence, named) for sentence in sentences)).strip()


def _clauses(sentence: str, named: "re.Pattern[str]") -> str:
    first, *others = sentence.split("; ")
    if named.search(first):
        return ""
    kept = [other for other in others if not named.search(other)]
    said = "; ".join([first, *kept])
    return said if len(kept) == len(others) or said.endswith(".") else f"{said}."
