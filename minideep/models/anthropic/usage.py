"""What a reply of Claude took, as the Messages API counts it, and what that costs."""

from typing import Any, cast

from ...messages import Usage
from ..adapter import count, under
from ..catalog import Tariff

STANDARD = (None, "standard", "global", "not_available")
"""The service tier, the speed and the region of a reply that no other price is asked for."""


def counted(said: Any) -> Usage:
    """The usage that a server *said*, whatever that is.

    The API counts three kinds of input, of which *input_tokens* is what no cache has seen:
    https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """
    fresh, output = count(said, "input_tokens"), count(said, "output_tokens")
    read = count(said, "cache_read_input_tokens") or 0
    write = count(said, "cache_creation_input_tokens") or 0
    thinking = count(said, "output_tokens_details", "thinking_tokens") or 0
    return Usage((fresh or 0) + read + write, output or 0, read, write, thinking, int(fresh is None or output is None))


def cost(said: Any, tariff: Tariff) -> float | None:
    """US dollars, what the API's own compactions cost included; None: not known."""
    # Whether it is billed by the list of prices: https://platform.claude.com/docs/en/about-claude/pricing
    standard = all(under(said, name) in STANDARD for name in ("service_tier", "speed", "inference_geo"))
    costs: list[float | None] = []
    for part in (said, *_compactions(said)):
        long_writes = count(part, "cache_creation", "ephemeral_1h_input_tokens") or 0
        costs.append(tariff.cost(counted(part), standard=standard, long_writes=long_writes))
    return None if None in costs else sum(filter(None, costs))


def _compactions(said: Any) -> list[Any]:
    """What is billed and is no part of the other counts: https://platform.claude.com/docs/en/build-with-claude/compaction"""
    parts = under(said, "iterations")
    listed = cast(list[Any], parts) if isinstance(parts, list) else []
    return [part for part in listed if under(part, "type") == "compaction"]
