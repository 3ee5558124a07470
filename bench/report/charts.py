"""Three kinds of pictures, for paper and phones: dots on an axis, lines over an axis, and shares of a whole.

A picture is 400 points wide, as a phone is, and its smallest text has 12. It is read without colours: what is ours is
black and bold, what is not is grey, and kinds of things differ in form, pattern or style of line. Names and numbers
stand beside what they name, and there is no legend.
"""

import textwrap
from collections.abc import Callable, Sequence
from math import floor, log10
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib import ticker
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

WIDTH, ROW, LEFT, RIGHT = 400, 35, 8, 392
TEXT, TITLE, LINE_OF_TITLE = 12, 14, 18
OURS, THEIRS, PALE = "black", "0.4", "0.85"
STYLES = ("-", "--", ":", "-.", (0, (8, 2)), (0, (1, 4)), (0, (4, 1, 1, 1, 1, 1)))
MARKS = ("s", "^", "D", "v", "P", "X", "h")
HATCHES = (("black", ""), ("white", "/////"), ("0.8", ""))
mpl.rcParams.update(
    {"font.size": TEXT, "font.family": "DejaVu Sans", "svg.hashsalt": "minideep", "hatch.linewidth": 1.2}
)
Words = Callable[[float], str]


class Dots(NamedTuple):
    """A row: a name, what to say of it, and in each panel one dot, or two that are joined."""

    name: str
    says: str
    values: Sequence[Sequence[float]]
    ours: bool = False
    hollow: bool = False
    """True if the value is one that was not reached: the measurement was stopped."""


class Line(NamedTuple):
    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    ours: bool = False


class Shares(NamedTuple):
    """A row: a name, what to say of it, and the parts of a whole."""

    name: str
    says: str
    parts: Sequence[float]
    ours: bool = False


def dots(title: str, rows: Sequence[Dots], *panels: Words) -> Figure:
    """Draw rows of dots over an axis with a logarithmic scale in each panel. A panel says its values in words."""
    figure, top = titled(title, len(rows) * ROW + 30)
    names = area(figure, LEFT, RIGHT, top, len(rows) * ROW)
    names.axis("off")
    names.set_zorder(1)
    for place, row in enumerate(rows):
        named(names, place, row.name, row.says, row.ours)
    width = (RIGHT - LEFT - 12 * (len(panels) - 1)) / len(panels)
    for at, words in enumerate(panels):
        left = LEFT + at * (width + 12)
        axes = area(figure, left, left + width, top, len(rows) * ROW)
        values = [value for row in rows for value in row.values[at]]
        logarithmic(axes, values, words)
        for place, row in enumerate(rows):
            dotted(axes, place, row, row.values[at])
    return figure


def dotted(axes: Any, place: int, row: Dots, values: Sequence[float]) -> None:
    colour, y = OURS if row.ours else THEIRS, place * ROW + 24
    axes.axhline(y, color=PALE, linewidth=1, zorder=0)
    if not values:
        return
    first, last = values[0], values[-1]
    begin = first if len(values) > 1 else axes.get_xlim()[0]
    axes.plot([begin, last], [y, y], color=colour, linewidth=3 if len(values) > 1 else 2, solid_capstyle="butt")
    if len(values) > 1:
        axes.plot([first], [y], "o", markersize=8, markerfacecolor="white", markeredgecolor=colour, markeredgewidth=2)
    face = "white" if row.hollow else colour
    axes.plot([last], [y], "o", markersize=8, markerfacecolor=face, markeredgecolor=colour, markeredgewidth=2)


def logarithmic(axes: Any, values: Sequence[float], words: Words) -> None:
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    axes.set_xscale("log")
    axes.set_xlim(low / 1.6, high * 1.8)
    inside = 0.06 * log10(high / low * 2.9)  # The words under a tick at the very edge would be cut off.
    width = axes.get_position().width * WIDTH
    ticks = powers(low / 1.6 * 10**inside, high * 1.8 / 10**inside, 60 / width * log10(high / low * 2.9))
    axes.xaxis.set_major_locator(ticker.FixedLocator(ticks))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: words(value)))
    axes.grid(axis="x", color=PALE, linewidth=1)
    bare(axes)


def powers(low: float, high: float, apart: float) -> list[float]:
    """Return powers of ten from *low* to *high*, with 2 and 5 times them if there is only one, that are at least as far
    *apart* as that, in powers of ten.

    >>> powers(0.5, 2000, 1.5), powers(3, 40, 0.3)
    ([1.0, 100.0], [5.0, 10.0, 20.0])
    """
    first, last = floor(log10(low)), floor(log10(high))
    found = [times * 10.0**power for power in range(first, last + 1) for times in (1, 2, 5)]
    found = [value for value in found if low <= value <= high]
    whole = [value for value in found if log10(value).is_integer()]
    kept: list[float] = []
    for value in whole if len(whole) > 1 else found:
        if not kept or log10(value / kept[-1]) >= apart:
            kept.append(value)
    return kept


def lines(title: str, lines: Sequence[Line], words: Words, along: str) -> Figure:
    """Draw lines over a linear axis, which *along* names; the other one is logarithmic, and says values in *words*."""
    figure, top = titled(title, 330)
    add_lines(figure, top, 280, lines, words, along)
    return figure


def stacked_lines(title: str, panels: Sequence[tuple[str, Sequence[Line], Words]], along: str) -> Figure:
    """Draw several panels of lines below each other, each with a heading."""
    figure, top = titled(title, len(panels) * 310)
    for place, (heading, found, words) in enumerate(panels):
        begin = top + place * 310
        figure.text(LEFT / WIDTH, 1 - (begin + 8) / height_of(figure), heading, va="center", fontstyle="italic")
        add_lines(figure, begin + 22, 230, found, words, along if place == len(panels) - 1 else "")
    return figure


def add_lines(figure: Figure, top: float, height: float, lines: Sequence[Line], words: Words, along: str) -> None:
    axes = area(figure, 62, 240, top, height)
    axes.set_ylim(auto=True)
    axes.set_yscale("log")
    for place, line in enumerate(lines):
        kind = {"color": OURS if line.ours else THEIRS, "linewidth": 2.5 if line.ours else 1.8}
        style = STYLES[place % len(STYLES)]
        every = max(1, len(line.xs) // 4)
        axes.plot(line.xs, line.ys, linestyle=style, marker=MARKS[place % len(MARKS)], markevery=every, **kind)
    low, high = (pick(value for line in lines for value in line.ys if value > 0) for pick in (min, max))
    axes.set_ylim(low / 1.5, high * 1.5)
    axes.yaxis.set_major_locator(
        ticker.FixedLocator(powers(low / 1.5, high * 1.5, 20 / height * log10(high / low * 2.25)))
    )
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: words(value)))
    axes.set_xlabel(along)
    axes.grid(axis="y", color=PALE, linewidth=1)
    bare(axes, "left", "bottom")
    name_ends(axes, lines, height)


def name_ends(axes: Any, lines: Sequence[Line], height: float) -> None:
    """Write the name of each line beside its end, with as much room between names as they need."""
    low, high = (log10(limit) for limit in axes.get_ylim())
    found = [(height * (high - log10(line.ys[-1])) / (high - low), line) for line in lines if line.ys[-1] > 0]
    texts = [(end, line, textwrap.fill(line.name, 19)) for end, line in sorted(found, key=lambda one: one[0])]
    rooms = [15 * (text.count("\n") + 1) + 3 for *_, text in texts]
    for (end, line, text), middle in zip(texts, spread([end for end, *_ in texts], rooms, height), strict=True):
        axes.annotate(
            text,
            (1, 1 - end / height), (1.1, 1 - middle / height), xycoords="axes fraction", textcoords="axes fraction",
            va="center", linespacing=1.05, fontweight="bold" if line.ours else "normal",
            arrowprops={"arrowstyle": "-", "color": THEIRS, "linewidth": 0.8, "shrinkB": 2, "shrinkA": 1},
        )  # fmt: skip


def spread(wanted: Sequence[float], rooms: Sequence[float], height: float) -> list[float]:
    """Return places as near to the *wanted* ones as possible that leave each its room, from the top to *height*."""
    places: list[float] = []
    for want, room in zip(wanted, rooms, strict=True):
        least = places[-1] + (rooms[len(places) - 1] + room) / 2 if places else room / 2 - 8
        places.append(max(want, least))
    most = height + 8.0
    for at in reversed(range(len(places))):
        places[at] = min(places[at], most - rooms[at] / 2)
        most = places[at] - rooms[at] / 2
    return places


def shares(title: str, kinds: Sequence[str], rows: Sequence[Shares]) -> Figure:
    """Draw each row as a bar of one length that its parts divide. The first bar names the kinds of parts."""
    figure, top = titled(title, (len(rows) + 1) * ROW - 10)
    axes = area(figure, LEFT, RIGHT, top - 14, (len(rows) + 1) * ROW)
    axes.set_xlim(0, 1)
    axes.axis("off")
    for at, kind in enumerate(kinds):
        width = 1 / len(kinds)
        bar(axes, 0, at * width, width, at)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text((at + 0.5) * width, 24, kind, ha="center", va="center", bbox=box)
    for place, row in enumerate(rows, 1):
        named(axes, place, row.name, row.says, row.ours)
        begin, whole = 0.0, sum(row.parts)
        for at, part in enumerate(row.parts):
            bar(axes, place, begin, part / whole, at)
            begin += part / whole
    return figure


def bar(axes: Any, place: int, begin: float, width: float, at: int) -> None:
    colour, hatch = HATCHES[at]
    axes.barh(place * ROW + 25, width, left=begin, height=13, facecolor=colour, hatch=hatch, edgecolor="black")


# ---- what all have


def titled(title: str, height: float) -> tuple[Figure, float]:
    """Return a figure with a title, and how far below its top the rest begins. *height* is that of the rest."""
    wrapped = textwrap.wrap(title, 46)
    top = 10 + LINE_OF_TITLE * len(wrapped) + 4
    figure = Figure(figsize=(WIDTH / 72, (top + height) / 72), facecolor="white")
    FigureCanvasSVG(figure)
    figure.text(LEFT / WIDTH, 1 - 8 / (top + height), "\n".join(wrapped), va="top", fontsize=TITLE, fontweight="bold")
    return figure, top


def height_of(figure: Figure) -> float:
    return figure.get_figheight() * 72


def area(figure: Figure, left: float, right: float, top: float, height: float) -> Any:
    """Return axes at a place in points, whose y is points from their top."""
    whole = height_of(figure)
    axes = figure.add_axes((left / WIDTH, 1 - (top + height) / whole, (right - left) / WIDTH, height / whole))
    axes.set_ylim(height, 0)
    axes.patch.set_alpha(0)
    return axes


def bare(axes: Any, *kept: str) -> None:
    for side in {"left", "right", "top", "bottom"} - set(kept):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    if "left" not in kept:
        axes.yaxis.set_visible(False)


def named(axes: Any, place: int, name: str, says: str, ours: bool) -> None:
    weight = "bold" if ours else "normal"
    y = (place * ROW + 11) / (axes.get_ylim()[0] or 1)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    how: dict[str, Any] = {"transform": axes.transAxes, "va": "center", "fontweight": weight, "bbox": box}
    axes.text(0, 1 - y, name, **how)
    axes.text(1, 1 - y, says, ha="right", **how)


def save(figure: Figure, path: Path) -> None:
    """Write a picture. The same picture is always the same bytes."""
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
