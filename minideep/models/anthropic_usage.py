"""What a reply of Claude took, as the Messages API counts it, and what that costs."""

from msgspec import Struct

from ..messages import Usage
from .prices import Tariff

STANDARD = frozenset({None, "standard", "global", "not_available"})
"""The service tier, the speed and the region of a reply that no other price is asked for."""


class _Details(Struct):
    thinking_tokens: int | None = None


class _Creation(Struct):
    ephemeral_1h_input_tokens: int | None = None


class Counted(Struct):
    """Tokens as the API counts them: *input_tokens* are only those that no cache has seen."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _Details | None = None
    cache_creation: _Creation | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    type: str | None = None
    iterations: list["Counted"] | None = None
    """What it took bit by bit. Compactions among them are billed, and are not part of the counts above:
    https://platform.claude.com/docs/en/build-with-claude/compaction
    """

    @property
    def usage(self) -> Usage:
        """The three kinds of input, summed: https://platform.claude.com/docs/en/build-with-claude/prompt-caching."""
        read, write = self.cache_read_input_tokens or 0, self.cache_creation_input_tokens or 0
        thinking = self.output_tokens_details and self.output_tokens_details.thinking_tokens
        return Usage((self.input_tokens or 0) + read + write, self.output_tokens or 0, read, write, thinking or 0)

    def cost(self, tariff: Tariff) -> float | None:
        """US dollars, what the API's own compactions cost included; None: not known."""
        # Whether it is billed by the list of prices: https://platform.claude.com/docs/en/about-claude/pricing
        standard = {self.service_tier, self.speed, self.inference_geo} <= STANDARD
        billed = [self, *(part for part in self.iterations or () if part.type == "compaction")]
        costs = [tariff.cost(part.usage, standard=standard, long_writes=part._for_an_hour) for part in billed]
        return None if None in costs else sum(filter(None, costs))

    @property
    def _for_an_hour(self) -> int:
        return (self.cache_creation and self.cache_creation.ephemeral_1h_input_tokens) or 0
