"""A table of the odd answers that compatible servers and gateways give, for each of the three wire formats.

Each row names its source, what the server sends, and what the adapter must make of it; `contracts/test_oddities.py` asks
for every one of them over the real SDKs.
"""

from harness.oddities import chat, claude, refusals, responses
from harness.oddities.rows import Oddity

TABLE: dict[str, list[Oddity]] = {
    "anthropic": claude.ROWS + refusals.ROWS["anthropic"],
    "openai": responses.ROWS + refusals.ROWS["openai"],
    "openai-chat": chat.ROWS + refusals.ROWS["openai-chat"],
}

__all__ = ["TABLE", "Oddity"]
