"""The contract of a store that several objects and processes may share, as tests."""

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from ..ports import Store
from .checks import appended, race, same
from .plain import PlainStore
from .store import StoreContract

Make = Callable[[Path], Store]


class DurableStoreContract(StoreContract):
    """The further promises of a store that any number of objects and processes may share.

    `make` is called again, here and in other processes, with a folder that holds rows already. So the test class must
    be in a module that can be imported.
    """

    def test_rows_outlive_the_object_that_put_them(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"a": b"1"})
            rows = store.rows()
            with PlainStore(self.make(tmp_path)) as other:
                same("rows in a second object", other.rows(), rows)
        with PlainStore(self.make(tmp_path)) as again:
            same("rows after a close", again.rows(), rows)

    def test_two_objects_hold_a_thread_one_at_a_time(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store, PlainStore(self.make(tmp_path)) as other:
            same("hold t, and t by another object", (store.hold("t"), other.hold("t")), (True, False))
            same("hold u by the other", (other.hold("u"), store.hold("u")), (True, False))
            store.release("t")
            same("hold t once it was released", other.hold("t"), True)
            other.release("t")
            other.release("u")

    def test_a_thread_that_another_process_holds_is_free_once_that_is_killed(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            same("hold t, u", (store.hold("t"), store.hold("u")), (True, True))
            store.release("t")
            with _elsewhere(_hold, self.make, tmp_path) as (answers, kill):
                same("hold t in another process once it was released here", answers.recv(), True)
                same("hold t here", store.hold("t"), False)
                kill()
                same("hold t once its holder was killed", store.hold("t"), True)
            store.release("t")
            store.release("u")

    def test_of_writers_in_two_processes_one_wins_each_round(self, tmp_path: Path) -> None:
        with (
            PlainStore(self.make(tmp_path)) as store,
            _elsewhere(_race_there, self.make, tmp_path) as (answers, _),
        ):
            won = 0
            while not answers.poll():
                won += race(store, "here", 10)
            theirs: int = answers.recv()
            same("appends of 2 processes", appended(store), (won + theirs, won + theirs))
            if not (won and theirs):
                raise AssertionError(f"this process won {won} rounds and the other {theirs}, expected some for each")

    def test_a_writer_that_is_killed_leaves_whole_appends(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            with _elsewhere(_write_for_ever, self.make, tmp_path) as (answers, kill):
                answers.recv()
                time.sleep(0.02)
                kill()
            count = int(store.head("t") or b"0")
            same("rows of a killed writer", store.keys("log/", "log0"), [f"log/{count}/{n}" for n in range(3)])
            same("appends once it is gone", (race(store, "here", 1), store.head("t")), (1, b"%d" % (count + 1)))


def _race_there(make: Make, folder: Path, answers: Connection) -> None:
    with PlainStore(make(folder)) as store:
        won = 0
        while won < 100:
            won += race(store, "there", 10)
    answers.send(won)


def _hold(make: Make, folder: Path, answers: Connection) -> None:
    store = PlainStore(make(folder))
    answers.send(store.hold("t"))
    time.sleep(600)


def _write_for_ever(make: Make, folder: Path, answers: Connection) -> None:
    store, old, count = PlainStore(make(folder)), [], 0
    while True:
        rows = {f"log/{count}/{part}": os.urandom(20_000) for part in range(3)}
        store.append("t", store.head("t"), b"%d" % count, rows, old)
        old, count = list(rows), count + 1
        if count == 3:
            answers.send(True)


@contextmanager
def _elsewhere(
    act: Callable[[Make, Path, Connection], None], make: Make, folder: Path
) -> Generator[tuple[Connection, Callable[[], None]]]:
    """Run *act* in a process of its own; yield the connection to what it sends, and a function that kills it."""
    context = get_context("spawn")
    answers, theirs = context.Pipe(duplex=False)
    process = context.Process(target=act, args=(make, folder, theirs), daemon=True)
    process.start()
    theirs.close()

    def kill() -> None:
        process.kill()
        process.join()

    try:
        yield answers, kill
    finally:
        kill()
        process.close()
        answers.close()
