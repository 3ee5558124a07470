"""Going on with a turn that was cut short: what it had spent before, so that its budgets do not begin anew."""

from ..checkpoint import Journal
from ..costs import Costs
from ..state import Path, State


def spent_before(journal: Journal, path: Path, state: State, *, is_free: bool) -> Costs:
    """Return what the turn of the run at *path* had spent, the runs below it included, as far as its log tells: steps,
    calls, tokens and money, but no times.
    """
    costs = _own(state)
    if is_free:  # Its own replies are no steps.
        costs.steps = 0
    last = {below: row.last for below, row in journal.log.runs.items()}
    # One that is in memory has events that no append has saved yet.
    last |= {below: child.number for below, child in journal.states.items()}
    for below, number in last.items():
        if below[: len(path)] == path and len(below) > len(path) and number > state.start.number:
            child = journal.states.get(below) or journal.saved_run(below)[0]
            if child.start.number > state.start.number:  # Otherwise its turn was over before this one began.
                costs.add(_own(child))
    return costs


def _own(state: State) -> Costs:
    start = state.start
    if not start.number:  # An older version wrote its snapshot, which does not tell where the turn began.
        return Costs()
    money = None if state.cost is None else state.cost - (start.cost or 0.0)
    return Costs(
        steps=state.step,
        tool_calls=state.tool_calls,
        usage=state.usage - start.usage,
        money=money or None,
        unpriced=state.unpriced - start.unpriced,
    )
