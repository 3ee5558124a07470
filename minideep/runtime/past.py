"""Turns that are over and are asked for again: by the key of their input, or by a `resume` with nothing to do."""

from ..checkpoint import accepted_input, past_turn
from ..costs import Costs
from ..errors import HistoryCut
from ..events import UserSaid
from ..turn import Turn, turn_of
from .run import Run


async def known_turn(run: Run, said: UserSaid) -> Turn | None:
    """Return the turn that an input with the key of *said* began, as it stood when the next input came; None if there
    was no such input.

    Raises:
        ConfigError: that was another input.
        HistoryCut: retention removed the turn.
        CheckpointError: it cannot be read, or is not saved yet.
    """
    journal, is_last = run.journal, run.state.key == said.key
    known = await accepted_input(journal, said)
    if known is None:
        return None
    run.live.number = known.number - 1  # Who follows the turn from its beginning begins there.
    if is_last and (journal.unsaved or run.state.status == "running"):  # Memory alone has it, or it is not over.
        return last_turn(run)
    try:
        past = await journal.store.off_loop(lambda: past_turn(journal, known, said.key))
    except HistoryCut:  # Of the last turn its end is kept.
        if is_last:
            return last_turn(run)
        raise
    costs, output = past.state.costs or Costs(), run.spec.output
    return turn_of(journal.thread_id, past.state, past.messages, past.artifacts, costs, output=output)


def last_turn(run: Run) -> Turn:
    """Return the last turn with the costs that its boundary has."""
    turn = run.turn()
    turn.costs = run.state.costs or turn.costs
    turn.usage = turn.costs.usage
    return turn
