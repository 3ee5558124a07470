"""Goldens of threads: what was said, and what it led to."""

from typing import Any, cast, get_args

from ..checkpoint import open_store, thread_events
from ..checks import checked
from ..ports import Store
from ..replay import PlayedCall, Recording, led_to
from ..state import ThreadId
from .golden import EndStatus, ExpectedCall, Golden


@checked
def from_thread(store: Store, thread_id: ThreadId) -> list[Golden]:
    """Return a golden for each message of a thread: with the messages before it and the files of them all, and with the
    status, the calls of the main run and the answer that it led to, until somebody decided or the turn was resumed.

    A model seldom answers in the same words twice: before you run them, cut `expected_final_answer` down to what
    matters, and `expected_calls` to what must be. Messages without text, those of a history, which nobody has run here,
    and turns that were cancelled or cut short, are left out.

    Raises:
        UnknownThread, CheckpointError
        HistoryCut: retention has removed the beginning of the thread.
    """
    goldens: list[Golden] = []
    earlier: list[str] = []
    files: dict[str, str] = {}
    recording = Recording(thread_events(open_store(store), thread_id), thread_id)
    for number, (given, played) in enumerate(led_to(recording), 1):
        said = given.message.text if given.message else ""
        files |= {path: text for path, text in given.files.items() if isinstance(text, str)}
        was_run = not given.is_history and played.status in get_args(EndStatus) and played.status != "cancelled"
        if said.strip() and was_run:
            golden = Golden(
                said,
                played.answer if played.status in ("ended", "escalated") else "",
                expected_status=cast(EndStatus, played.status),
                expected_calls=tuple(_expected(call) for call in played.calls if not call.agents),
                id=f"{thread_id}-{number}",
                earlier=tuple(earlier),
                files=dict(files),
            )
            goldens.append(golden)
        earlier += [said] if said.strip() else []
    return goldens


def _expected(call: PlayedCall) -> ExpectedCall:
    args: Any = call.args
    return ExpectedCall(call.tool, args if isinstance(args, dict) else {})  # pyright: ignore[reportUnknownArgumentType]
