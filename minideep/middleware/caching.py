"""Prompt caching: what the requests of a run have in common is paid for once."""

from functools import lru_cache
from hashlib import sha256
from typing import Literal

from msgspec import structs

from ..checks import checked
from ..context import ToolContext
from ..ports import Cache, Middleware, Request

_Ttl = Literal["5m", "1h"]


class PromptCachingMiddleware(Middleware):
    """Asks the provider to cache tools, prompt, memory and messages; the model's adapter knows how.

    *ttl* is how long Claude keeps them after their last use; writing `1h` costs 2 times the input's price instead of
    1.25. Elsewhere, and for models that cache nothing, it says nothing. Messages that a hook after this one adds to a
    request are taken for reminders, said this once and not worth keeping. What a model's own settings say about
    caching stands.

    Raises:
        ConfigError: there is no such *ttl*.
    """

    @checked
    def __init__(self, ttl: _Ttl = "5m") -> None:
        self._ttl: _Ttl = ttl

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        # Outside a call this names the run.
        cache = Cache(self._ttl, _key(ctx.idempotency_key), len(request.messages))
        return structs.replace(request, cache=cache)


@lru_cache(maxsize=1000)
def _key(run: str) -> str:
    """A name of *run* that tells the provider nothing, and is short enough for it."""
    return sha256(run.encode(errors="surrogatepass")).hexdigest()[:32]
