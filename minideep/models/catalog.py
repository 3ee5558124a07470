"""What models cost: US dollars for a million tokens, as their providers list them.

Sources, read on 2026-11-20 as copies that others keep of them:

* https://platform.claude.com/docs/en/about-claude/pricing and the overview of each model beside it; that Sonnet 5.5
  reads its cache at half of what its overview says, since 2026-10-07:
  https://github.com/kurofune/claudit/releases/tag/v1.9.2
* https://developers.openai.com/api/docs/models/gpt-6-luna, of gpt-6.1-sol in its translation
  https://www.w3cschool.cn/openai_api/openai-api-docs-gpt-6-1-sol.html, of gpt-6-sol
  https://github.com/merefield/codexometer/releases/tag/v0.18.4, of gpt-6-astra
  https://github.com/BerriAI/litellm/discussions/39633, of gpt-5 the model beside it
  https://developers.openai.com/api/docs/models/gpt-5-codex

A model that is not listed here has no price until somebody gives one: it is never guessed.
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
    """What one model costs: US dollars for a million tokens. Every token is billed once, as one of the kinds."""

    input: _Dollars
    """Of what no cache has seen and none is to keep."""
    output: _Dollars
    """Thinking included."""
    cache_read: _Dollars | None = None
    """None: as *input*."""
    cache_write: _Dollars | None = None
    """None: as *input*. Anthropic keeps it for 5 minutes, OpenAI for 30."""
    cache_write_long: _Dollars | None = None
    """Of what is to be kept for longer, an hour or twelve; None: not known, so that such a reply has no price."""
    beyond: "tuple[int, Price] | None" = None
    """The tokens of input, cached or not, over which a whole request has another price."""

    def __post_init__(self) -> None:
        check_fields(self)

    @checked
    def of(self, usage: Usage, long_writes: int = 0) -> float | None:
        """What one reply costs; None if its tokens are not known. *long_writes* are those of `usage.cache_write` that
        are to be kept for longer.
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
    """Writing the cache costs 1.25 times the input for 5 minutes, and twice for an hour."""
    return Price(input, output, cache_read, 1.25 * input, 2 * input, beyond)


def _gpt(input: float, output: float, cache_read: float) -> Price:
    """Writing the cache costs 1.25 times the input; over 272,000 tokens all input costs twice, output 1.5 times."""
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
"""The provider's own API, in its standard tier. What its own tools cost besides, such as a web search, is not in it."""


class Tariff:
    """How the replies of one model are billed: by the price that it was given, else by the listed one."""

    def __init__(self, model: str, price: Price | None) -> None:
        self._given = price
        self._listed = PRICES.get(re.sub(r"-(\d{8}|\d{4}-\d\d-\d\d)$", "", model))

    @property
    def known(self) -> bool:
        """Whether there is a price."""
        return (self._given or self._listed) is not None

    def cost(self, usage: Usage, *, standard: bool = True, long_writes: int = 0) -> float | None:
        """US dollars, or None: not known. Not *standard* is a reply that the API bills by another list than ours."""
        price = self._given or (self._listed if standard else None)
        return price.of(usage, long_writes) if price else None
