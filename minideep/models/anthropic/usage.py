"""Usage and cost of a reply, as the Messages API counts them."""

from collections.abc import Mapping
from typing import Any, cast

from ...messages import Usage
from ..amounts import nested, token_count
from ..catalog import Tariff

TIERS: Mapping[str | None, float] = {None: 1.0, "standard": 1.0, "batch": 0.5}
"""The price of a service tier as part of the listed one; others have lists of their own:
https://platform.claude.com/docs/en/about-claude/pricing"""
STANDARD = (None, "standard", "global", "not_available")
"""The speeds and regions that have no price of their own."""


def usage_of(said: Any) -> Usage:
    """Return the usage that a server *said*, whatever its form.

    Of the three kinds of input that the API counts, *input_tokens* is the part that was neither read from a cache nor
    written to one: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """
    fresh, output = token_count(said, "input_tokens"), token_count(said, "output_tokens")
    read = token_count(said, "cache_read_input_tokens") or 0
    write = token_count(said, "cache_creation_input_tokens") or 0
    thinking = token_count(said, "output_tokens_details", "thinking_tokens") or 0
    return Usage((fresh or 0) + read + write, output or 0, read, write, thinking, int(fresh is None or output is None))


def cost_of(said: Any, tariff: Tariff) -> float | None:
    """Return US dollars, with the API's own compactions, or None if the cost is unknown."""
    tier = nested(said, "service_tier")
    listed = isinstance(tier, str | None) and all(nested(said, name) in STANDARD for name in ("speed", "inference_geo"))
    share = TIERS.get(tier) if listed else None
    costs: list[float | None] = []
    for part in (said, *_compactions(said)):
        long_writes = token_count(part, "cache_creation", "ephemeral_1h_input_tokens") or 0
        costs.append(tariff.cost(usage_of(part), share=share, long_writes=long_writes))
    return None if None in costs else sum(filter(None, costs))


def _compactions(said: Any) -> list[Any]:
    """Return the usage of compactions. They are billed, but are not part of the other counts.

    https://platform.claude.com/docs/en/build-with-claude/compaction
    """
    parts = nested(said, "iterations")
    listed = cast(list[Any], parts) if isinstance(parts, list) else []
    return [part for part in listed if nested(part, "type") == "compaction"]
