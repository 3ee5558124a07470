"""Aligns the columns of a table that is text."""

from collections.abc import Sequence

WORDS = ("", "turn", "result", "status", "verdict", "passed")
"""The heads of columns of words, which are aligned left; those of numbers are aligned right."""


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    r"""Return *rows*, the first of which are the heads, as lines. The last column is not padded.

    >>> print("\n".join(aligned([["result", "steps", "golden"], ["pass", "3", "emma"]])))
    result  steps  golden
    pass        3  emma
    """
    heads, widths = rows[0], [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for row in rows:
        cells = [
            cell.ljust(width) if head in WORDS else cell.rjust(width)
            for head, cell, width in zip(heads[:-1], row[:-1], widths[:-1], strict=True)
        ]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines
