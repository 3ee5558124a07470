"""The common part of the adapters to OpenAI's two APIs."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from mimetypes import guess_extension
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import msgspec

from ... import messages as ours
from ...media import labelled
from ...plain_json import to_json
from ...ports import Reply, Request
from ..adapter import Adapter, Wire, hashed_id, sendable
from ..amounts import dollars, token_count
from ..body import encode

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CACHED = (
    ("num_cached_tokens",),
    ("prompt_token_details", "cached_tokens"),
    ("prompt_cache_hit_tokens",),
    ("cached_tokens",),
)
"""Fields in which Mistral (https://github.com/vercel/ai/pull/14419), DeepSeek
(https://api-docs.deepseek.com/guides/kv_cache) and Kimi count tokens read from a cache, if they do not count them as
OpenAI does.
"""

TIERS: Mapping[str | None, float] = {None: 1.0, "auto": 1.0, "default": 1.0, "flex": 0.5, "batch": 0.5}
"""The price of a service tier as part of the listed one; others have lists of their own:
https://developers.openai.com/api/docs/guides/flex-processing and https://developers.openai.com/api/docs/guides/batch"""


class OpenAIAdapter(Adapter["AsyncOpenAI"]):
    """A model behind OpenAI's SDK. A subclass is one of the two APIs."""

    sdk = "openai"
    client_class = "AsyncOpenAI"
    home = "openai.com"
    told_by_environment: ClassVar[tuple[str, ...]] = ("OpenAI-Organization", "OpenAI-Project")
    key_variable = "OPENAI_API_KEY"
    counts: ClassVar[tuple[str, str]]
    """The API's names for the numbers of input and of output tokens."""

    def _reply(self, content: Iterable[ours.AnyBlock], stop: ours.StopReason, said: Any, tier: Any) -> Reply:
        """Return a reply whose usage is what the server *said*, and which was made in the service tier *tier*.

        Its cost is what the server said too (https://openrouter.ai/docs/use-cases/usage-accounting), else by tariff.
        """
        usage, cost = _usage_of(said, *self.counts), dollars(said, "cost")
        if cost is None:
            details = f"{self.counts[0]}_details"
            long_writes = token_count(said, details, "cache_write_tokens_details", "ttl_12h_tokens") or 0
            cost = self._tariff.cost(
                usage, share=TIERS.get(tier) if isinstance(tier, str | None) else None, long_writes=long_writes
            )
        return Reply(ours.AssistantMessage(tuple(content)), usage, stop, cost)


def is_object(value: Any) -> TypeGuard[Wire]:
    """Return whether *value*, which may be whatever a server sends, is a JSON object."""
    return isinstance(value, dict)


def arguments_text(call: ours.ToolCall) -> str:
    """Return the arguments of *call* as JSON; an empty object if what the model wrote is not one."""
    if not call.raw.startswith(b"{"):
        return "{}"
    try:
        msgspec.json.decode(call.raw)
    except msgspec.DecodeError:  # NaN or a lone surrogate, which servers reject as well.
        return encode(sendable(call.raw)).decode()
    return call.raw.decode()


def json_text(arguments: Any) -> str:
    """Return a call's arguments as the JSON text they should be; some servers send an object, or nothing."""
    return arguments if isinstance(arguments, str) else to_json(arguments).decode() if arguments else ""


def call_id(given: str) -> str:
    """Return *given*, or its hash if it is empty or longer than the 64 characters that OpenAI accepts."""
    return given if 0 < len(given) <= 64 else hashed_id(given)


def cache_key(request: Request) -> Wire:
    """Return the key under which OpenAI keeps the requests of a run together; it caches their common start by itself.

    https://developers.openai.com/api/docs/guides/prompt-caching
    """
    return {"prompt_cache_key": request.cache.key} if request.cache and request.cache.key else {}


def data_url(block: ours.Image | ours.Video | ours.Document) -> str:
    return f"data:{block.media_type};base64,{b64encode(block.data).decode()}"


async def uploaded(client: "AsyncOpenAI", block: ours.Image | ours.Document) -> str:
    """Upload *block* and return the id of its file."""
    block = labelled(block)
    if isinstance(block, ours.Image):
        name, purpose = f"image{guess_extension(block.media_type) or ''}", "vision"
    else:
        name, purpose = file_name(block), "user_data"
    return (await client.files.create(file=(name, block.data, block.media_type), purpose=purpose)).id


def file_name(block: ours.Document) -> str:
    return block.name or f"document{guess_extension(block.media_type) or ''}"


def _usage_of(said: Any, input: str, output: str) -> ours.Usage:
    """Return the usage that a server *said*, whatever its form; *input* and *output* are the API's names."""
    taken, given = token_count(said, input), token_count(said, output)
    places = [(f"{input}_details", "cached_tokens"), *CACHED]
    read = next((tokens for place in places if (tokens := token_count(said, *place))), 0)
    write = token_count(said, f"{input}_details", "cache_write_tokens") or 0
    reasoning = token_count(said, f"{output}_details", "reasoning_tokens") or 0
    return ours.Usage(taken or 0, given or 0, read, write, reasoning, int(taken is None or given is None))
