"""The catalog: window, output limit and price of models, as their providers list them.

The figures are data, in `catalog.json`: one model a line, each with its source and the day on which that was read. They
come from the providers' pages, as two independent copies have them: litellm 1.109.1
(`model_prices_and_context_window_backup.json`) and genai-prices 0.2.3. A figure on which the two differ is left out.

What is not listed is unknown until the user states it. Nothing is guessed.
"""

import logging
import math
import re
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from ..checks import UserWritten, check_fields, checked
from ..kinds import Check, Positive
from ..messages import Usage

logger: logging.Logger = logging.getLogger("minideep")

_Dollars = Annotated[float, Check(lambda price: 0 <= price < math.inf, "US dollars for a million tokens, 0 or more")]


class Price(UserWritten, frozen=True):
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


class ModelInfo(UserWritten, frozen=True):
    """What is known about one model: `ModelInfo(window=32_000, price=Price(input=0.1, output=0.4))`. None: unknown."""

    window: Positive | None = None
    """The most tokens of input that one request may have."""
    output: Positive | None = None
    """The most tokens of one reply."""
    price: Price | None = None
    """The price of the provider's own API in its standard tier, without what its own tools cost, such as web search."""
    source: str = ""
    """Where the figures are from, and the day on which that was read."""

    def __post_init__(self) -> None:
        check_fields(self)


UNKNOWN_MODEL = ModelInfo()
_DATE = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d)$")
_added: dict[str, ModelInfo] = {}
_reported: set[str] = set()


@cache
def _listed() -> dict[str, ModelInfo]:
    """Read the catalog, when the first model is made."""
    return msgspec.json.decode(Path(__file__).with_name("catalog.json").read_bytes(), type=dict[str, ModelInfo])


@checked
def model_info(model: str) -> ModelInfo | None:
    """Return what is known about *model*, or None. A dated name has the figures of its model, unless it has its own.

    >>> model_info("claude-haiku-4-5-20251001").window
    200000
    """
    names = (model, _DATE.sub("", model))
    return next((table[name] for name in names for table in (_added, _listed()) if name in table), None)


@checked
def add_model_info(model: str, info: ModelInfo) -> None:
    """Add *info* about *model* to the catalog of this process, in place of what is known about it.

    It holds for models that are made afterwards. A dated name is for that version only.
    """
    _added[model] = info


def report_unknown(model: str, *, window: bool, price: bool) -> None:
    """Warn, once for each *model* in a process, that its *window* or its *price* is unknown."""
    if not (window or price) or model in _reported:
        return
    _reported.add(model)
    names = [name for name, unknown in (("window", window), ("price", price)) if unknown]
    logger.warning(
        "model %r: its %s unknown; give it %s, or describe it with `minideep.models.add_model_info`",
        model,
        f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'}",
        " and ".join(f"`{name}=`" for name in names),
    )


class Tariff:
    """The billing of one model: by the price that its user gave, else by the one in the catalog."""

    def __init__(self, model: str, price: Price | None) -> None:
        self._given = price
        self._listed = (model_info(model) or UNKNOWN_MODEL).price

    @property
    def known(self) -> bool:
        """True if there is a price."""
        return (self._given or self._listed) is not None

    def cost(self, usage: Usage, *, share: float | None = 1.0, long_writes: int = 0) -> float | None:
        """Return US dollars, or None if the cost is unknown.

        *share* is what the reply's service tier costs as part of the listed price; None: unknown. A price that the user
        has given is that of the tier which the user asks for.
        """
        if self._given:
            return self._given.of(usage, long_writes)
        cost = self._listed.of(usage, long_writes) if self._listed and share is not None else None
        return None if cost is None or share is None else cost * share
