"""A provider on loopback that bills its prompt cache as Anthropic does.

    with Bank(lambda body: [{"type": "text", "text": "hi"}]) as bank:
        ...                  # the real SDK at bank.url
    bank.bills               # the tokens (of 4 characters) that each request read from the cache, wrote to it, and neither

A breakpoint writes the request up to its block to the cache, if that is 1,024 tokens or more. It reads the longest
prefix in the cache that ends at its block or at one of the 19 blocks before it:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from harness.providers import Answer, Provider, json_answer

MINIMUM = 1024
WINDOW = 20
MOST = 4


class Bill(NamedTuple):
    read: int
    written: int
    rest: int

    @property
    def input(self) -> int:
        return sum(self)


class Bank(Provider):
    """A provider that answers with the content blocks that *say* returns for a request body."""

    def __init__(self, say: Callable[[Any], list[dict[str, Any]]]) -> None:
        super().__init__()
        self.bills: list[Bill] = []
        self._say = say
        self._written: set[bytes] = set()

    @property
    def share(self) -> float:
        """The share of all input that was read from the cache."""
        return sum(bill.read for bill in self.bills) / sum(bill.input for bill in self.bills)

    def take(self) -> Answer:
        body = self.bodies[-1]
        blocks = list(blocks_of(body))
        if problem := refused(blocks):
            error = {"type": "invalid_request_error", "message": problem}
            return json_answer({"type": "error", "error": error}, 400)
        bill = self._bill(blocks)
        self.bills.append(bill)
        said = self._say(body)
        stop = "tool_use" if any(block["type"] == "tool_use" for block in said) else "end_turn"
        usage = {
            "input_tokens": bill.rest,
            "cache_read_input_tokens": bill.read,
            "cache_creation_input_tokens": bill.written,
            "output_tokens": 10,
        }
        whole = {"type": "message", "role": "assistant", "content": said, "stop_reason": stop, "usage": usage}
        return json_answer(whole)

    def _bill(self, blocks: list[tuple[str, dict[str, Any]]]) -> Bill:
        digest, total, prefixes = b"", 0, []
        for where, block in blocks:
            said = json.dumps(without_marks(block))
            digest, total = sha256(digest + where.encode() + said.encode()).digest(), total + len(said) // 4
            prefixes.append((digest, total))
        marks = [at for at, (_, block) in enumerate(blocks) if "cache_control" in block]
        seen = {at for mark in marks for at in range(max(0, mark - WINDOW + 1), mark + 1)}
        read = max((prefixes[at][1] for at in seen if prefixes[at][0] in self._written), default=0)
        wrote = [prefixes[at] for at in marks if prefixes[at][1] >= MINIMUM]
        self._written.update(digest for digest, _ in wrote)
        written = max(0, wrote[-1][1] - read) if wrote else 0
        return Bill(read, written, total - read - written)


def blocks_of(body: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the blocks of a request in the order of the cache, each with its place: tools, system or a role."""
    yield from (("tools", tool) for tool in body.get("tools", ()))
    yield from (("system", block) for block in body.get("system", ()))
    yield from ((message["role"], block) for message in body["messages"] for block in message["content"])


def without_marks(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}


def refused(blocks: list[tuple[str, dict[str, Any]]]) -> str:
    marked = [block for _, block in blocks if "cache_control" in block]
    if len(marked) > MOST:
        return f"a maximum of {MOST} blocks with cache_control may be provided, found {len(marked)}"
    if any("thinking" in block.get("type", "") for block in marked):
        return "cache_control cannot be set for thinking blocks"
    if any(block.get("type") == "text" and not block["text"].strip() for _, block in blocks):
        return "text content blocks must contain non-whitespace text"
    return ""
