"""Personal data in a text: what each kind of it looks like."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Literal

Kind = Literal["email", "card", "ip", "key"]
FOUND: Mapping[str, str] = {
    # Also in Latin letters with marks, Greek and Cyrillic; a script without blanks would take the text beside it along.
    "email": r"(?<![A-Z0-9.%+\-\u00c0-\u052f])[A-Z0-9_.%+\-\u00c0-\u052f]{1,64}"
    r"@(?:[A-Z0-9\-\u00c0-\u052f]{1,63}\.){1,8}[A-Z\u00c0-\u052f]{2,24}(?![A-Z0-9\u00c0-\u052f])",
    # Of 13 to 19 digits, or in the groups of a card: https://en.wikipedia.org/wiki/Payment_card_number
    "card": r"(?<![0-9.])(?:[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}|[0-9]{4}([ -])[0-9]{6}\2[0-9]{5}|[0-9]{13,19})"
    r"(?![0-9])",
    "ip": r"(?<![A-Z0-9_.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![A-Z0-9_]|\.[0-9])"
    r"|(?<![A-Z0-9_])(?:[A-F0-9]{0,4}:){2,7}[A-F0-9]{1,4}(?:(?:\.[0-9]{1,3}){3})?(?![A-Z0-9_])",
    # Tokens that say by their beginning whose they are: of Anthropic, OpenAI, GitHub, GitLab, Slack, AWS, Google and
    # Stripe; JSON Web Tokens; and private keys.
    "key": r"(?<![A-Z0-9_])(?:sk-[\w-]{20,500}|gh[pousr]_\w{30,500}|github_pat_\w{30,500}|glpat-[\w-]{20,500}"
    r"|xox[abeoprs]-[\w-]{10,500}|(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)|AIza[\w-]{35}|[rs]k_(?:live|test)_\w{16,500}"
    r"|eyJ[\w-]{8,5000}\.[\w-]{8,5000}\.[\w-]{0,5000})"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){1,20000}"
    r"-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----",
}
"""What each kind looks like. Every repetition is bounded, so that none takes long on hostile text."""


def pattern_of(kind: Kind) -> re.Pattern[str]:
    """Return the pattern of *kind*. What it finds may still be something else: see `is_meant`."""
    return re.compile(FOUND[kind], re.ASCII | (kind != "key" and re.IGNORECASE))


def is_meant(kind: str, text: str) -> bool:
    """Return whether *text*, which looks like one of *kind*, is one, as far as can be calculated."""
    if kind == "card":
        return _passes_luhn(text)
    return kind != "ip" or _is_address(text)


def _passes_luhn(text: str) -> bool:
    """Return whether the last digit checks the others: https://en.wikipedia.org/wiki/Luhn_algorithm"""
    digits = [int(letter) for letter in reversed(text) if letter.isdigit()]
    return sum(sum(divmod(digit * (1 + place % 2), 10)) for place, digit in enumerate(digits)) % 10 == 0


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return any(map(str.isdigit, text))  # `a::b` is an address, and a name in C++.
