"""Tools that run at the provider: how they are declared, which of their calls go back, and where their code runs.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools
"""

import time
from collections.abc import Sequence
from datetime import datetime

from ...errors import ConfigError
from ...tools import Tool
from ..adapter import Wire
from ..body import encode
from ..provider_tools import CodeExecution, WebSearch, given
from .blocks import EMPTY, THOUGHTS, Blocks

NONE: Wire = {}
WEB_SEARCH = "web_search_20250305"
"""The version that every model and the clouds have. Later ones run code, which only some do:
https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool
"""
CODE_EXECUTION = "code_execution_20250825"
"""The version that every model has: https://platform.claude.com/docs/en/agents-and-tools/tool-use/code-execution-tool"""


def provider_tool(tool: Tool, model: str) -> Wire:
    """Return the declaration of a `ProviderTool` for *model*.

    Raises:
        ConfigError: Anthropic has no such tool.
    """
    match tool:
        case WebSearch():
            names = "max_uses", "allowed_domains", "blocked_domains"
            return {"type": WEB_SEARCH, "name": tool.name} | given(**{name: getattr(tool, name) for name in names})
        case CodeExecution():
            return {"type": CODE_EXECUTION, "name": tool.name}
        case _:
            raise ConfigError(f"{model} has no tool {type(tool).__name__!r}; give the agent a function that does it")


def container_of(messages: Sequence[Blocks]) -> str:
    """Return the id of the latest container of the thread; empty if there is none, or if it has expired.

    Calls that code in a container has made can only be answered there:
    https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling
    """
    latest: Wire = next((message.container for message in reversed(messages) if message.container), NONE)
    return str(latest.get("id") or "") if _expires(latest.get("expires_at")) > time.time() else ""


def _expires(said: object) -> float:
    """Return the time at which a container expires, as seconds since the epoch."""
    try:
        return datetime.fromisoformat(str(said)).timestamp()
    except ValueError:
        return float("inf")


def settled(messages: Sequence[Blocks], has_container: bool) -> list[Blocks]:
    """Leave out calls whose results will never come, such as one that was cut; the API refuses a request with them.

    A result may come in a later message: a turn that paused, or that waits for tools of the agent, goes on when it is
    sent back. It does not go on if somebody has said something else, or if its container (*has_container*) is gone:
    https://github.com/dust-tt/dust/pull/28538 and https://github.com/AnswerDotAI/lisette/issues/108
    """
    underway, is_paused = _underway(messages)
    answered = {block.id for message in messages for block in message.server if block.is_result}
    kept: set[str] = set()
    found: list[Blocks] = []
    for at, message in enumerate(messages):
        alone: dict[int, bytes] = {}
        for block in message.server:
            goes_on = at >= underway and (is_paused or has_container or not block.needs_container)
            if block.is_result:
                fits = block.id in kept
            elif block.alone:
                fits = block.code in kept
            else:
                fits = (block.id in answered or goes_on) and (not block.code or block.code in kept)
                kept.update([block.id] if fits else [])
            if not fits:
                alone[block.at] = block.alone
        found.append(_replaced(message, alone) if alone else message)
    return found


def _underway(messages: Sequence[Blocks]) -> tuple[int, bool]:
    """Return where the turn of the assistant begins that the request goes on with, and whether it had paused.

    Behind it there is nothing, or nothing but results.
    """
    at = len(messages)
    while at and messages[at - 1].role == "user":
        at -= 1
        if any(kind != "tool_result" for kind in messages[at].kinds):
            return len(messages), False
    is_paused = at == len(messages)
    while at and messages[at - 1].role == "assistant":
        at -= 1
    return at, is_paused


def _replaced(message: Blocks, others: dict[int, bytes]) -> Blocks:
    """Return *message* with *others* in the places of its blocks; an empty one is left out."""
    places = [at for at in range(len(message.parts)) if others.get(at, b"kept")]
    parts = [others.get(at) or message.parts[at] for at in places]
    kinds = [message.kinds[at] for at in places]
    if kinds and kinds[-1] in THOUGHTS:
        parts.append(encode(EMPTY))
        kinds.append(EMPTY["type"])
    return Blocks(parts, message.role, kinds, message.marks)
