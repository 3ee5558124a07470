"""Prices of models: US dollars for a million tokens, as their providers list them.

Sources, read on 2026-11-20 from third-party copies:

* https://platform.claude.com/docs/en/about-claude/pricing and the overview page of each model beside it; for Sonnet
  5.5, which reads its cache at half the price of its overview page since 2026-10-07:
  https://github.com/kurofune/claudit/releases/tag/v1.9.2
* https://developers.openai.com/api/docs/models/gpt-6-luna; for gpt-6.1-sol its translation
  https://www.w3cschool.cn/openai_api/openai-api-docs-gpt-6-1-sol.html; for gpt-6-sol
  https://github.com/merefield/codexometer/releases/tag/v0.18.4; for gpt-6-astra
  https://github.com/BerriAI/litellm/discussions/39633; for gpt-5 the model beside it
  https://developers.openai.com/api/docs/models/gpt-5-codex

A model that is not listed has no price until its user states one. Prices are never guessed.
"""

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from msgspec import Struct

from ..checks import check_fields, checked
from ..kinds import Rule
from ..messages import Usage

_Dollars = Annotated[float, Rule(lambda price: 0 <= price < math.inf, "US dollars for a million tokens, 0 or more")]


class Price(Struct, frozen=True):
    """The price of one model, in US dollars for a million tokens. Every token is billed once, as one of the kinds."""

    input: _Dollars
    """Input tokens that are neither read from a cache nor written to one."""
    output: _Dollars
    """Output tokens, thinking included."""
    cache_read: _Dollars | None = None
    """Input tokens read from a cache; None: as *input*."""
    cache_write: _Dollars | None = None
    """Input tokens written to a cache, for 5 minutes at Anthropic and 30 at OpenAI; None: as *input*."""
    cache_write_long: _Dollars | None = None
    """Input tokens written for longer, an hour or twelve; None: unknown, and then the cost of a reply with such tokens
    is unknown as well.
    """
    beyond: "tuple[int, Price] | None" = None
    """A number of input tokens, cached or not, and the price of every request that has more."""

    def __post_init__(self) -> None:
        check_fields(self)

    @checked
    def of(self, usage: Usage, long_writes: int = 0) -> float | None:
        """Return the cost of one reply, or None if its tokens are unknown.

        *long_writes* is how many of `usage.cache_write` are kept for longer.
        """
        if usage.unknown:
            return None
        if self.beyond and usage.input > self.beyond[0]:
            return self.beyond[1].of(usage, long_writes)
        if long_writes and self.cache_write_long is None:
            return None
        kinds = [
            (usage.cache_read, self.cache_read),
            (usage.cache_write - long_writes, self.cache_write),
            (long_writes, self.cache_write_long),
        ]
        fresh = max(0, usage.input - usage.cache_read - usage.cache_write)
        cached = sum(tokens * (self.input if price is None else price) for tokens, price in kinds)
        return (fresh * self.input + cached + usage.output * self.output) / 1e6


def _claude(input: float, output: float, cache_read: float, beyond: tuple[int, Price] | None = None) -> Price:
    """Return a price whose cache writes cost 1.25 times the input for 5 minutes, and twice the input for an hour."""
    return Price(input, output, cache_read, 1.25 * input, 2 * input, beyond)


def _gpt(input: float, output: float, cache_read: float) -> Price:
    """Return a price whose cache writes cost 1.25 times the input.

    Over 272,000 tokens of input all input costs twice and output 1.5 times as much.
    """
    long = Price(2 * input, 1.5 * output, 2 * cache_read, 2.5 * input)
    return Price(input, output, cache_read, 1.25 * input, beyond=(272_000, long))


PRICES: Mapping[str, Price] = MappingProxyType(
    {
        "claude-fable-5-1": _claude(10, 50, 0.25),
        "claude-opus-5-5": _claude(4, 20, 0.20),
        "claude-opus-5": _claude(5, 25, 0.50),
        "claude-sonnet-5-5": _claude(2, 10, 0.10),
        "claude-sonnet-5": _claude(2, 10, 0.20),
        "claude-sonnet-4-6": _claude(3, 15, 0.30),
        "claude-haiku-5-5": _claude(0.10, 0.50, 0.01, beyond=(100_000, _claude(0.50, 2.50, 0.05))),
        "claude-haiku-4-5": _claude(1, 5, 0.10),
        "gpt-6-astra": _gpt(10, 50, 1.00),
        "gpt-6.1-sol": _gpt(2, 10, 0.10),
        "gpt-6-sol": _gpt(2, 10, 0.20),
        "gpt-6-luna": _gpt(0.10, 0.50, 0.01),
        "gpt-5": Price(1.25, 10, 0.125),
    }
)
"""Prices of the provider's own API in its standard tier, without what its own tools cost, such as a web search."""


class Tariff:
    """The billing of one model: by the price that its user gave, else by the listed one."""

    def __init__(self, model: str, price: Price | None) -> None:
        self._given = price
        self._listed = PRICES.get(re.sub(r"-(\d{8}|\d{4}-\d\d-\d\d)$", "", model))

    @property
    def known(self) -> bool:
        """True if there is a price."""
        return (self._given or self._listed) is not None

    def cost(self, usage: Usage, *, standard: bool = True, long_writes: int = 0) -> float | None:
        """Return US dollars, or None if the cost is unknown.

        A reply that is not *standard* is billed by another list than `PRICES`, so that only a given price applies.
        """
        price = self._given or (self._listed if standard else None)
        return price.of(usage, long_writes) if price else None
