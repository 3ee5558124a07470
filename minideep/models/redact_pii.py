"""Redaction of personal data: what goes to a model has marks in its place, whoever asks that model."""

import hmac
import re
from collections.abc import Collection, Mapping
from functools import lru_cache, partial
from typing import Any, Literal, cast

from msgspec import msgpack, structs

from ..checks import checked
from ..errors import ConfigError
from ..messages import AnyBlock, Document, Message, Text, ToolCall
from ..plain_json import from_json, to_json
from ..ports import Emit, Model, Reply, Request
from .body import Encoded, Part
from .pii import FOUND, Kind, is_meant, pattern_of
from .resolving import resolve
from .wrapper import ModelWrapper

PROMPTS = 64
"""Prompts of which is kept what became of them."""


class Shown(Part, frozen=True):
    """A message as the model is shown it. Every request repeats the messages of the one before, as the same objects,
    and adapters know the objects that they have encoded.
    """

    message: Message

    @property
    def size(self) -> int:
        return len(msgpack.encode(self.message.content))


class RedactPII(ModelWrapper):
    """*model*, which reads marks in place of personal data: `RedactPII("anthropic:claude-sonnet-4-6")`.

    Found are email addresses, numbers of payment cards, IP addresses and secret keys (*kinds*), and what *patterns*,
    regular expressions by name, match. With the *strategy* `mask` a `[email]` stands in its place, with `drop` nothing,
    and with `hash` a mark such as `[email 1f0c2a9b]`, the same for the same text, which needs a *secret*: without one
    the few possible numbers could be tried out.

    It is a model and no middleware, because an agent's model is asked by others too: subagents, the summarizer, a
    judge. Whoever has this object sends redacted requests: prompt, messages, results, and the arguments of earlier
    calls. Images, PDFs and links, and blocks that only the provider understands, go as they are. The thread, its log
    and the tools keep the originals, unless the agent has `redact=` too. The model repeats what it reads, so an
    argument that it writes may hold a mark: a tool should refuse one.

    Raises:
        ConfigError: *model* is not a model, a pattern is no regular expression or has the name of a kind, or `hash` has
            no *secret*.
    """

    @checked
    def __init__(
        self,
        model: str | Model,
        kinds: Collection[Kind] = ("email", "card", "ip", "key"),
        patterns: Mapping[str, str] | None = None,
        *,
        strategy: Literal["mask", "hash", "drop"] = "mask",
        secret: str = "",
    ) -> None:
        super().__init__([resolve(model)])
        if strategy == "hash" and not secret:
            raise ConfigError(
                "RedactPII: strategy 'hash' needs a secret; give any text that stays the same, and private"
            )
        if taken := FOUND.keys() & (patterns or {}).keys():
            raise ConfigError(f"RedactPII: patterns names {min(taken)!r}, which is a kind; give it another name")
        self._strategy, self._secret = strategy, secret.encode(errors="surrogatepass")
        try:
            named = {name: re.compile(pattern) for name, pattern in (patterns or {}).items()}
        except re.error as exc:
            raise ConfigError(f"RedactPII: patterns has {exc.pattern!r}, no regular expression: {exc}") from None
        # The user's first: what they name is to have their name.
        self._patterns = named | {kind: pattern_of(kind) for kind in kinds}
        self._prompt = lru_cache(maxsize=PROMPTS)(self._redacted)
        self._shown = Encoded[Message, Shown](self._message)

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        # The part that never changes is known by its length.
        stable = self._prompt(request.system[: request.stable])
        system = stable if request.stable is None else stable + self._prompt(request.system[request.stable :])
        messages = [self._shown(message).message for message in request.messages]
        redacted = structs.replace(request, system=system, messages=messages)
        if request.stable is not None:
            redacted = structs.replace(redacted, stable=len(stable))
        return await self.models[0].complete(redacted, emit)

    def _redacted(self, text: str) -> str:
        for kind, pattern in self._patterns.items():
            text = pattern.sub(partial(self._mark, kind), text)
        return text

    def _mark(self, kind: str, found: re.Match[str]) -> str:
        text = found[0]
        if not is_meant(kind, text):
            return text
        if self._strategy == "hash":
            return f"[{kind} {hmac.digest(self._secret, text.encode(errors='surrogatepass'), 'sha256').hex()[:8]}]"
        return f"[{kind}]" if self._strategy == "mask" else ""

    # ---- what a request holds

    def _message(self, message: Message) -> Shown:
        content = message.content
        redacted = self._redacted(content) if isinstance(content, str) else tuple(map(self._block, content))
        return Shown([], message if redacted == content else structs.replace(message, content=redacted))

    def _block(self, block: AnyBlock) -> AnyBlock:
        match block:
            case Text(text) if (redacted := self._redacted(text)) != text:
                return Text(redacted)  # Its citations would quote the original.
            case ToolCall(name, raw, call_id):
                args = from_json(raw)
                redacted = self._value(args)
                # As they stand, if nothing was found: a cache of the provider compares the bytes.
                return block if redacted == args else ToolCall(name, to_json(redacted), call_id)
            case Document(data, media_type) if media_type.startswith("text/"):
                text = data.decode(errors="replace")
                redacted = self._redacted(text)
                return block if redacted == text else structs.replace(block, data=redacted.encode())
            case _:
                return block

    def _value(self, value: Any) -> Any:
        """Return plain data with each of its texts redacted, and each number that is one as a text."""
        if isinstance(value, dict):
            return {self._redacted(name): self._value(item) for name, item in cast(dict[str, Any], value).items()}
        if isinstance(value, list):
            return [self._value(item) for item in cast(list[Any], value)]
        text = str(value)
        return value if (redacted := self._redacted(text)) == text else redacted
