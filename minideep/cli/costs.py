"""Shows what a thread has cost: its sums, a row for each turn, and one turn by step and subagent, each with a bar."""

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from ..checkpoint import RunCosts, Spending, StepCosts, ThreadCosts, TurnCosts
from ..costs import in_words
from ..export import json_line, plain
from ..messages import Usage
from .bars import BLOCKS, LETTERS, Part, Row, table
from .render import Screen, can_say, clock, size
from .text import one_line, safe

STEPS = 50
"""Steps of one run that are listed; those before them are added up."""
COLUMNS = (
    "took", "runs", "model", "in", "cost", "tools", "out", "status", "cached", "stored", "waited", "models", "events",
    "reasoning", "calls",
)  # fmt: skip
"""The columns of all tables; on a narrow terminal the last ones are left out."""
KNOWN_OF_REMOVED = ("in", "cached", "out", "reasoning", "cost")


def as_json(costs: ThreadCosts, turns: Iterable[TurnCosts]) -> Iterator[str]:
    """Yield a line of JSON for each of the *turns*, and one for the whole thread."""
    for turn in turns:
        yield json_line({"event": "TurnCosts", **plain(turn)})
    about = {name: value for name, value in plain(costs).items() if name != "turns"}
    yield json_line({"event": "ThreadCosts", **about})


class CostsScreen(Screen):
    """Prints the costs of a thread, as wide as the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.glyphs: dict[str, str] = BLOCKS if can_say("".join(BLOCKS.values())) else LETTERS

    def thread(self, costs: ThreadCosts, shown: Sequence[TurnCosts], whole: TurnCosts) -> None:
        """Show a thread: its sums, its agents, the turns that are *shown*, and one turn as a *whole*."""
        for name, text in (*about_thread(costs), ("time", self._times(costs)), *amounts_of(costs)):
            self._text(f"{name:<8}{text}")
        if len(costs.agents) > 1:
            self._bars("agent", list(agent_rows(costs)))
        self._bars("turn", [*earlier_turns(costs.turns, shown), *turn_rows(shown)])
        if not whole.removed:
            self._text("\n" + one_line(about_turn(whole), self.console.width))
            self._bars("step", list(step_rows(whole.run, whole)))
        for remark in remarks(costs, whole):
            self._text(remark, "dim")

    def _times(self, costs: ThreadCosts) -> str:
        glyphs, total, turns = self.glyphs, costs.total, costs.turns
        model_s = total.model_s + sum(turn.unanswered_s for turn in turns)
        harness, saving = (of_all(getattr(turn, name) for turn in turns) for name in ("harness_s", "save_s"))
        waited = f"; waited {duration(costs.waited_s)} for a person" if costs.waited_s else ""
        return (
            f"{least_of(costs)}{duration(costs.seconds)}: {glyphs['model']} models {duration(model_s)}, "
            f"{glyphs['tools']} tools {duration(total.tools_s)}, {glyphs['rest']} rest, of it minideep {harness}, "
            f"saving {saving}{waited}"
        )

    def _bars(self, title: str, rows: Sequence[Row]) -> None:
        self._text("")
        self.console.print(table(title, COLUMNS, rows, self.console.width, self.glyphs), soft_wrap=False)

    def _text(self, text: str, style: str = "") -> None:
        self.console.print(Text(safe(text), style), soft_wrap=False)


# ---- sums


def about_thread(costs: ThreadCosts) -> Iterator[tuple[str, str]]:
    first, last, count = costs.turns[0], costs.turns[-1], sum(turn.removed or 1 for turn in costs.turns)
    until = last.end or last.start + last.seconds
    yield "thread", f"{costs.thread_id}: {costs.status}, {plural(count, 'turn')}"
    yield "from", f"{clock(first.start)} to {clock(until)}"


def amounts_of(costs: ThreadCosts) -> Iterator[tuple[str, str]]:
    total, usage = costs.total, costs.total.usage
    cached = f", {share(usage)} of it cached" if usage.cache_read else ""
    reasoning = f", {usage.reasoning:,} of it reasoning" if usage.reasoning else ""
    yield "tokens", f"{in_words(usage.input, usage.unknown)} in{cached}; {usage.output:,} out{reasoning}"
    money = "unknown" if total.cost is None else dollars(total.cost)
    if total.unpriced and total.cost is not None:
        money = f"at least {money}; the cost of {plural(total.unpriced, 'reply', 'replies')} is unknown"
    yield "money", money
    snapshots = f", and {size(costs.snapshots)} of snapshots" if costs.snapshots else ""
    yield (
        "bytes",
        f"{least_of(costs)}{size(total.bytes_raw)} of events, stored as {size(total.bytes_stored)}{snapshots}",
    )
    calls = f"{plural(total.tool_calls, 'tool call')} with {total.tool_chars:,} characters"
    yield "steps", f"{least_of(costs)}{plural(total.replies, 'model reply', 'model replies')}, {calls}"


def least_of(costs: ThreadCosts) -> str:
    return "at least " if costs.turns[0].removed else ""


def remarks(costs: ThreadCosts, whole: TurnCosts) -> Iterator[str]:
    """Yield what a reader must know of the figures."""
    total, turns = costs.total, costs.turns
    if total.model_s + total.tools_s > costs.seconds:
        yield "Work that was done at the same time counts with each of its times."
    if turns[0].removed:
        yield f"Retention removed turns 1 to {turns[0].number}; known are the tokens and the money of their main run."
    if any(turn.harness_s is None and turn.end is not None and not turn.removed for turn in turns):
        yield "An earlier version saved some turns without what minideep itself and saving took."
    if cut := sum(turn.cut_short for turn in turns):
        yield f"Turns were cut short {plural(cut, 'time')}; what they had spent since they were saved is in no log."
    if not whole.timed:
        yield "An earlier version saved this turn without the times of its events, so it has no bars."
    if total.unpriced or total.usage.unknown:
        yield "+ means at least, and ? unknown: some models have no price, or did not report their tokens."


# ---- rows


def cells(spent: Spending) -> dict[str, str]:
    """Return the cells that all tables have, in the order in which they are shown."""
    usage = spent.usage
    asked = bool(spent.replies or spent.unpriced or usage != Usage())
    cost = "?" if spent.cost is None else f"{dollars(spent.cost)}{'+' if spent.unpriced else ''}"
    return {
        "model": duration(spent.model_s),
        "tools": duration(spent.tools_s),
        "in": tokens(usage.input, usage.unknown) if asked else "",
        "cached": share(usage),
        "out": tokens(usage.output, usage.unknown) if asked else "",
        "reasoning": f"{usage.reasoning:,}" if usage.reasoning else "",
        "cost": cost if asked else "",
        "calls": f"{spent.tool_calls:,}" if spent.tool_calls else "",
        "events": size(spent.bytes_raw),
        "stored": size(spent.bytes_stored),
    }


def agent_rows(costs: ThreadCosts) -> Iterator[Row]:
    for one in costs.agents:
        yield Row(one.agent, {"runs": f"{one.runs:,}", **cells(one.own), "models": ", ".join(one.models)})


def earlier_turns(turns: Sequence[TurnCosts], shown: Sequence[TurnCosts]) -> Iterator[Row]:
    """Yield a row of the sums of the turns before those that are *shown*, if there are any."""
    if earlier := turns[: turns.index(shown[0])]:
        spent, took = Spending(), sum(turn.seconds for turn in earlier)
        for turn in earlier:
            spent.add(turn.run.total)
        first = 1 if earlier[0].removed else earlier[0].number
        yield Row(f"{first} to {earlier[-1].number}", {"status": "", "took": duration(took), **cells(spent)})


def turn_rows(turns: Sequence[TurnCosts]) -> Iterator[Row]:
    """Yield a row of each turn. The longest bar is that of the turn that took longest."""
    longest = max(turn.seconds for turn in turns)
    for turn in turns:
        label, spent = f"{turn.number} {turn.said or '(resumed)'}", cells(turn.run.total)
        if turn.removed:
            known = {name: text if text[-1:] in "+?%" else f"{text}+" for name, text in spent.items()}
            known = {name: known[name] for name in KNOWN_OF_REMOVED}
            yield Row(f"1 to {turn.number} (removed)", {"status": turn.status, **known})
            continue
        waited = "waits" if turn.waited_s is None else duration(turn.waited_s) if turn.waited_s else ""
        about = {"status": turn.status, "took": duration(turn.seconds)}
        yield Row(label, {**about, **spent, "waited": waited}, shares(turn, longest))


def shares(turn: TurnCosts, longest: float) -> list[Part]:
    """Return the bar of a turn: the shares of models, tools and the rest in its time."""
    model_s, tools_s = turn.run.total.model_s + turn.unanswered_s, turn.run.total.tools_s
    whole = max(turn.seconds, model_s + tools_s)
    if not whole or not longest:
        return []
    scale = turn.seconds / longest / whole
    ends = [0.0, model_s * scale, (model_s + tools_s) * scale, whole * scale]
    kinds = ("model", "tools", "rest")
    return list(zip(kinds, ends, ends[1:], strict=False))


def step_rows(run: RunCosts, turn: TurnCosts, depth: int = 0) -> Iterator[Row]:
    """Yield a row of each step of a run, and below it of the subagents that its calls ran. A bar says when."""
    indent = "  " * depth
    if earlier := run.steps[:-STEPS]:
        spent = Spending()
        for step in earlier:
            spent.add(step.own)
        yield Row(f"{indent}{len(earlier):,} steps before", cells(spent))
    for step in run.steps[-STEPS:]:
        yield Row(f"{indent}{about_step(step)}", cells(step.own), times(step, turn))
        for child, name in ((child, call.name) for call in step.calls for child in call.runs):
            status = "" if child.status == "ended" else f", {child.status}"
            span = [("run", *placed(turn, child.start, child.end))] if child.start and child.end else []
            yield Row(f"{indent}  {child.agent} ({name}{status})", cells(child.total), span)
            yield from step_rows(child, turn, depth + 2)


def about_step(step: StepCosts) -> str:
    if step.kind == "summary":
        return "summary"
    counts: dict[str, int] = {}
    for call in step.calls:
        counts[call.name] = counts.get(call.name, 0) + 1
    names = ", ".join(name if count == 1 else f"{name} ({count})" for name, count in counts.items())
    return f"(earlier) {names}" if step.kind == "continued" else f"{step.number} {names or 'answer'}"


def times(step: StepCosts, turn: TurnCosts) -> list[Part]:
    """Return the bar of a step: when its model was asked, and when its calls were answered."""
    parts: list[Part] = []
    if step.replied is not None:
        parts.append(("model", *placed(turn, step.replied - step.own.model_s, step.replied)))
        if step.ended is not None and step.ended > step.replied:
            parts.append(("tools", *placed(turn, step.replied, step.ended)))
    return parts


def placed(turn: TurnCosts, begin: float, end: float) -> tuple[float, float]:
    """Return two times as parts of the turn's time."""
    last = max(turn.end or 0.0, turn.start + turn.seconds)
    length = last - turn.start or 1.0
    first, second = (min(1.0, max(0.0, (at - turn.start) / length)) for at in (begin, end))
    return first, second


def about_turn(turn: TurnCosts) -> str:
    waited = f"; then waited {duration(turn.waited_s)} for a person" if turn.waited_s else ""
    what = f"turn {turn.number}: {turn.said}" if turn.said else f"turn {turn.number}, resumed"
    return f"{what}; {turn.status} after {duration(turn.seconds)}{waited}"


# ---- words


def duration(seconds: float) -> str:
    """Return a time for people, in three digits.

    >>> [duration(seconds) for seconds in (0, 0.00004, 0.0123, 9.87, 61, 7300, 200_000)]
    ['0 s', '0.04 ms', '12.3 ms', '9.87 s', '1 min 1 s', '2 h 1 min', '2 d 7 h']
    """
    if seconds < 60:
        return f"{seconds:.3g} s" if seconds >= 1 or not seconds else f"{seconds * 1000:.3g} ms"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def dollars(cost: float) -> str:
    """Return an amount of money, of which little is seen too.

    >>> [dollars(cost) for cost in (0, 0.00002, 0.0123, 1234.5)]
    ['$0', '$2e-05', '$0.0123', '$1,234.5000']
    """
    return f"${cost:,.4f}" if cost >= 0.0001 else f"${cost:.1g}"


def tokens(count: int, unknown: int) -> str:
    return f"{count:,}{'+' if unknown else ''}" if count or not unknown else "?"


def share(usage: Usage) -> str:
    return f"{usage.cache_read / usage.input:.0%}" if usage.input else ""


def of_all(values: Iterable[float | None]) -> str:
    """Return the sum of times, of which some or all may be unknown."""
    there = list(values)
    known = [value for value in there if value is not None]
    return f"{duration(sum(known))}{'' if len(known) == len(there) else '+'}" if known else "?"


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
