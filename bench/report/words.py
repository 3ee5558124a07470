"""Amounts in words: at most three digits that count, and a unit."""

from math import floor, log10


def three(value: float) -> str:
    """Return a number in three digits.

    >>> [three(value) for value in (0, 0.01234, 1.5, 12.04, 1413.2, 250_000)]
    ['0', '0.0123', '1.5', '12', '1,410', '250,000']
    """
    if not value:
        return "0"
    digits = 2 - floor(log10(abs(value)))
    text = f"{round(value, digits):,.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def micros(value: float) -> str:
    """Return microseconds, in the unit that fits.

    >>> [micros(value) for value in (12.3, 5000, 2_500_000)]
    ['12.3 µs', '5 ms', '2.5 s']
    """
    return scaled(value, ("µs", "ms", "s"))


def millis(value: float) -> str:
    return micros(value * 1000)


def size(value: float) -> str:
    """Return a number of bytes, in the unit that fits.

    >>> [size(value) for value in (300, 1_600_000, 1_413_000_000)]
    ['300 B', '1.6 MB', '1.41 GB']
    """
    return scaled(value, ("B", "KB", "MB", "GB"))


def megabytes(value: float) -> str:
    return size(value * 1e6)


def times(value: float) -> str:
    """Return a ratio."""
    return f"{three(value)}×"


def scaled(value: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        if value < 999.5:
            return f"{three(value)} {unit}"
        value /= 1000
    return f"{three(value)} {units[-1]}"
