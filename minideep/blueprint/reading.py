"""The files that a subtask reads: its message names them, and each request shows their contents.

So the log has a content once, however many subagents read it. After a restart it is read from there again.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any, Self

from msgspec import structs

from ..context import ToolContext
from ..documented import Struct
from ..messages import Message, UserMessage
from ..ports import Middleware, Request
from .files import VirtualFiles, as_text, digest

_REFERENCE = re.compile(r"# ([^\n]+)\n\[([^\n]+), (\d+) bytes, sha256 ([0-9a-f]{64})\]\n\n")
_MARK = 16
"""Digits of a content's hash that mark where it ends. No content can hold its own hash, so none can end itself."""


class Reading(Struct, frozen=True):
    """A file as a subtask's message names it."""

    name: str
    """Its name in the plan."""
    path: str
    size: int
    """Bytes."""
    sha256: str

    @property
    def reference(self) -> str:
        """The text that stands for the file in the recorded message."""
        return f"# {self.name}\n[{self.path}, {self.size} bytes, sha256 {self.sha256}]"

    def block(self, content: str | bytes | None) -> str:
        """Return the text that stands for the file in a request."""
        if content is None:
            return f"# {self.name}\n(It was deleted since this task began.)"
        found = digest(content)
        # On a disk. A subagent that waited for a person goes on nevertheless: it may have done much already.
        note = "" if found == self.sha256 else "(It was changed since this task began; this is what it holds now.)\n"
        mark = f"file {found[:_MARK]}"
        return f"# {self.name}\n{note}<{mark}>\n{as_text(content)}\n</{mark}>"

    @classmethod
    def all_in(cls, text: str) -> tuple[list[Self], str]:
        """Return the references at the beginning of a recorded message, and the rest of it."""
        found: list[Self] = []
        at = 0
        # One after the other from the first letter on: an instruction, which follows them, can add none.
        while match := _REFERENCE.match(text, at):
            name, path, size, sha256 = match.groups()
            found.append(cls(name, path, int(size), sha256))
            at = match.end()
        return found, text[at:]


class ReadFiles(Middleware):
    """Shows roles the contents of the files that their messages name.

    It is inherited rather than the roles' own, and stands outside all others, so that they see what the model sees.
    """

    inherit: bool | None = True

    def __init__(self, files: VirtualFiles, roles: Collection[str]) -> None:
        self._files = files
        self._roles = roles

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        if ctx.state.agent not in self._roles or not request.messages:
            return request
        first, (known, shown) = request.messages[0], ctx.scratch.get(self, (None, None))
        if first is not known:
            shown = await self._shown(ctx, first)
            ctx.scratch[self] = first, shown
        return request if shown is first else structs.replace(request, messages=_with_first(request.messages, shown))

    async def _shown(self, ctx: ToolContext, message: Message) -> Message:
        """Return a role's message with the contents in it."""
        readings, rest = Reading.all_in(message.text)
        if not readings:
            return message
        blocks = [one.block(await self._files.content(ctx, one.path, one.sha256)) for one in readings]
        return UserMessage("\n\n".join([*blocks, rest]))


def _with_first(messages: Sequence[Message], first: Any) -> list[Message]:
    return [first, *messages[1:]]
