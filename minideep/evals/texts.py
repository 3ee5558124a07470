"""Numbers and texts in tables: means with their spread, dollars, and text on one line, control characters escaped."""

from .cases import Spread

NAME_SHOWN, PROBLEM_SHOWN, ANSWER_SHOWN = 60, 400, 200
"""Characters of a golden's name, of a problem and of an answer in a table."""


def with_spread(spread: Spread | None, form: str) -> str:
    """Return a mean, and its deviation if there is any."""
    if spread is None:
        return "-"
    mean, deviation = f"{spread.mean:{form}}", f"{spread.deviation:{form}}"
    return mean if deviation == f"{0:{form}}" else f"{mean} ±{deviation}"


def counted(spread: Spread | None) -> str:
    """Return a mean of counts, such as 12,345 or 3.33, and its deviation if there is any."""
    return with_spread(spread, ",.0f" if spread is not None and spread.mean >= 100 else ".3g")


def money(amount: float | None, unpriced: int) -> str:
    """Return an amount of US dollars in words. *amount* does not include that of *unpriced* replies."""
    if amount is None or (unpriced and not amount):
        return "cost unknown" if unpriced or amount is None else "$0"
    return f"{'at least ' if unpriced else ''}{_rounded(amount)}"


def dollars(spread: Spread | None, unpriced: int = 0) -> str:
    """Return a mean amount for a column; `?` is an unknown one, and `+` means at least."""
    if spread is None or (unpriced and not spread.mean):
        return "?"
    more = f" ±{_rounded(spread.deviation)}" if spread.deviation else ""
    return f"{_rounded(spread.mean)}{more}{'+' if unpriced else ''}"


def _rounded(amount: float) -> str:
    return f"${amount:.4f}" if amount >= 0.001 else f"${amount:.6f}" if amount else "$0"


def one_line(text: str, limit: int) -> str:
    """Return *text* on one line of at most *limit* characters, with control characters escaped."""
    flat = "".join(letter if letter.isprintable() else escaped(letter) for letter in " ".join(text.split()))
    return flat if len(flat) <= limit else f"{flat[: limit - 3]}..."


def escaped(letter: str) -> str:
    """Return a letter as Python escapes it."""
    return letter.encode("unicode_escape").decode()
