"""Prompt caching: the provider reads what the requests of a run have in common from its cache, at a lower price."""

from functools import lru_cache
from hashlib import sha256
from typing import Literal

from msgspec import structs

from ..checks import checked
from ..context import ToolContext
from ..ports import Cache, Middleware, Request
from ..state import Path

_Ttl = Literal["5m", "1h"]


class PromptCachingMiddleware(Middleware):
    """Asks the provider to cache tools, prompt, memory and messages. The model's adapter knows how.

    *ttl* is how long Claude keeps them after their last use. Writing for `1h` costs 2 times the input price instead of
    1.25 times. Other providers ignore it, and models without caching ignore all of this. Messages that a later hook
    adds to a request are not cached, because the next request does not have them. A model's own cache settings win.

    Raises:
        ConfigError: *ttl* is neither `5m` nor `1h`.
    """

    @checked
    def __init__(self, ttl: _Ttl = "5m") -> None:
        self._ttl: _Ttl = ttl

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        key = ctx.scratch.get(self) or ctx.scratch.setdefault(self, cache_key(ctx.thread_id, ctx.path))
        return structs.replace(request, cache=Cache(self._ttl, key, len(request.messages)))


@lru_cache(maxsize=1000)
def cache_key(thread_id: str, path: Path) -> str:
    """Return a name for a run that tells the provider nothing about the thread, and is short enough for it."""
    return sha256("/".join((thread_id, *path)).encode(errors="surrogatepass")).hexdigest()[:32]
