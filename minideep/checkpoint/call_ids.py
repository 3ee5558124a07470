"""Unique ids for calls: some servers say `call_0` in every reply."""

import itertools
from collections.abc import Mapping

from ..messages import AnyBlock, AssistantMessage, ToolCall, is_json, parse_arguments
from ..state import Path, State


class CallIds:
    """The ids that the calls and the children of each run have. Collected once: a look at every reply would make a step
    cost more and more.
    """

    def __init__(self) -> None:
        self._by_run: dict[Path, set[str]] = {}

    def of(self, path: Path) -> set[str] | None:
        """Return the ids of the run at *path*, or None if they were not collected yet."""
        return self._by_run.get(path)

    def collect(self, path: Path, state: State, runs: Mapping[Path, object]) -> set[str]:
        """Collect and return the ids of the run at *path*: of the calls in its context, and of its children."""
        replies = (message for message in state.messages if isinstance(message, AssistantMessage))
        shown = (call.id for reply in replies for call in reply.calls)
        below = runs if path in runs or not path else ()  # A new run has none.
        children = (other[-1].split("/")[0] for other in below if other[:-1] == path)
        ids = self._by_run[path] = {*shown, *children}
        return ids

    def forget_children(self) -> None:
        """Keep those of the main run only."""
        self._by_run = {path: ids for path, ids in self._by_run.items() if not path}


def unique_call_ids(
    blocks: tuple[AnyBlock, ...], taken: set[str], waiting: set[str], number: int
) -> tuple[AnyBlock, ...]:
    """Return the blocks of a reply with a new id for each call that has none, or whose id is *taken* or *waiting*; the
    ids of all its calls are added to *taken*.

    An id must identify one call in all that is shown to the model, one waiting call, and one child run; otherwise the
    answer to one call could be given to another. *number*, of the event that will hold the reply, makes new ids unique.
    """
    found = list(blocks)
    for place, block in enumerate(blocks):
        if isinstance(block, ToolCall):
            # Arguments that are not JSON could be written, but a thread that holds them could not be read.
            if not block.id or not is_json(block.raw) or _is_ambiguous(block.id, taken, waiting):
                found[place] = block = _renamed(block, f"call_{number}_{place}", taken, waiting)
            taken.add(block.id)
    return tuple(found)


def _is_ambiguous(call_id: str, taken: set[str], waiting: set[str]) -> bool:
    # A slash separates the key of a child from its call.
    return call_id in taken or call_id in waiting or "/" in call_id


def _renamed(call: ToolCall, new_id: str, taken: set[str], waiting: set[str]) -> ToolCall:
    raw, wanted = call.raw, call.id or new_id
    for count in itertools.count():
        if not _is_ambiguous(wanted, taken, waiting):
            break
        wanted = new_id + (f"_{count}" if count else "")
    return ToolCall(call.name, raw if is_json(raw) else parse_arguments(raw.decode(errors="replace")), wanted)
