"""Prints figures beside their bounds, and remembers those over them."""

failed: list[str] = []


def bound(name: str, value: float, limit: float, unit: str = "", *, least: bool = False) -> None:
    """Print a figure with its bound: the largest value allowed, or with *least* the smallest."""
    print(f"  {name:66} {value:10,.2f} {unit:3} ({'at least' if least else 'bound'} {limit:,.2f})")
    if (value < limit) if least else (value > limit):
        failed.append(name)


def verdict() -> int:
    """Print which figures broke their bounds, and return the exit code."""
    print(f"out of bounds: {', '.join(failed)}" if failed else "within the bounds")
    return bool(failed)
