"""The contract of every store, as tests."""

import os
import reprlib
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from ..agent import Agent
from ..checkpoint import log_prefix
from ..context import ToolContext
from ..errors import CheckpointError, ThreadBusy, ThreadConflict, UnknownThread
from ..messages import ToolCall
from ..models import ScriptedModel
from ..ports import Request, Store
from ..tools import tool

ODD_NAMES = ["a", "a/b", "a b", "ä%2F", "head/x", "..", "A", "a\x00", "😀", "x" * 500]
"""Threads may have any name."""


class StoreContract:
    """The promises of every store. A store that outlives its object inherits `DurableStoreContract`."""

    def make(self, folder: Path) -> Store:
        """Return a store that may use *folder*, and is empty if the folder is."""
        raise NotImplementedError(f"{type(self).__name__}.make must return a store")

    def test_what_is_not_there_is_nothing(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            same("of an empty store", (store.head("t"), store.get("a")), (None, None))
            same("of an empty store", (store.rows("", "~"), store.keys("", "~")), ([], []))

    def test_values_come_back_as_they_were_put(self, tmp_path: Path) -> None:
        values = {"a": b"", "b": os.urandom(3_000_000), "c": bytes(1000), "d": bytes(range(256))}
        with closing(self.make(tmp_path)) as store:
            store.append("t", None, b"1", values)
            same("rows", dict(store.rows("a", "e")), values)
            same("one by one", {key: store.get(key) for key in values}, values)

    def test_rows_are_in_the_order_of_their_keys_and_in_the_range(self, tmp_path: Path) -> None:
        keys = ["log/t//0010", "log/t//0002", "log/t/x/0001", "log/t-/1", "log/T//1", "log/t/", "log/t0"]
        with closing(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {key: key.encode() for key in keys})
            same("keys from log/t/ to log/t0", store.keys("log/t/", "log/t0"), [*sorted(keys[:3] + keys[5:6])])
            same("rows like keys", store.rows("log/", "log0"), [(key, key.encode()) for key in sorted(keys)])
            same("an empty range", store.rows("log/t0", "log/t0"), [])

    def test_threads_do_not_see_each_other_whatever_they_are_called(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            for name in ODD_NAMES:
                store.append(name, None, name.encode(), {})
            same("heads", {name: store.head(name) for name in ODD_NAMES}, {name: name.encode() for name in ODD_NAMES})
            same("number of heads", len(store.keys("head/", "head0")), len(ODD_NAMES))

    def test_an_append_deletes_puts_and_replaces_the_head(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"a": b"1", "b": b"1"})
            store.append("t", b"1", b"2", {"a": b"2", "c": b"2"}, ["b"])
            same("rows", store.rows("a", "d"), [("a", b"2"), ("c", b"2")])
            same("head", store.head("t"), b"2")

    def test_an_append_to_another_head_changes_nothing(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"a": b"1"})
            before = store.rows("", "~")
            for expected in (None, b"", b"0", b"12"):
                with raises(ThreadConflict, f"an append to head {expected!r} where it is b'1'"):
                    store.append("t", expected, b"2", {"a": b"2", "b": b"2"}, ["a"])
            with raises(ThreadConflict, "an append to a head that is not there"):
                store.append("u", b"1", b"2", {"b": b"2"})
            same("rows after refused appends", store.rows("", "~"), before)

    def test_an_append_that_deletes_what_is_not_there_changes_nothing(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"a": b"1", "b": b"1"})
            before = store.rows("", "~")
            with raises(ThreadConflict, "an append that deletes a missing row"):
                store.append("t", b"1", b"2", {"a": b"2", "c": b"2"}, ["a", "missing", "b"])
            same("rows after a refused append", store.rows("", "~"), before)

    def test_a_thread_whose_head_was_removed_can_be_begun_again(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"a": b"1"})
            store.append("t", b"1", None, {}, ["a"])
            same("rows of a removed thread", store.rows("", "~"), [])
            store.append("t", None, b"2", {"a": b"2"})
            same("head", store.head("t"), b"2")

    def test_a_blob_is_written_once_and_goes_with_its_last_reference(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"blob/x": b"first", "ref/x/t": b"", "blob/xy": b"", "ref/xy/t": b""})
            store.append("u", None, b"1", {"blob/x": b"second", "ref/x/u": b""})
            same("a blob that was put twice", store.get("blob/x"), b"first")
            store.append("t", b"1", None, {}, ["ref/x/t"])
            same("a blob with one reference left", store.get("blob/x"), b"first")
            store.append("u", b"1", b"2", {"ref/x/v": b""}, ["ref/x/u"])
            same("a blob that is let go and taken at once", store.get("blob/x"), b"first")
            store.append("u", b"2", b"3", {}, ["ref/x/v"])
            same("blobs once x has no reference", store.keys("blob/", "blob0"), ["blob/xy"])

    def test_rows_are_of_one_moment_while_somebody_writes(self, tmp_path: Path) -> None:
        def write() -> None:
            old: list[str] = []
            for number in range(150):
                new = {f"log/{number + part}": b"%d" % number for part in (0, 1000, 2000)}
                store.append("t", store.head("t"), b"%d" % number, new, old, timeout=60)
                old = list(new)

        with closing(self.make(tmp_path)) as store, ThreadPoolExecutor(1) as pool:
            writing, seen = pool.submit(write), set[tuple[bytes, ...]]()
            while not writing.done():
                seen.add(tuple(value for _, value in store.rows("log/", "log0")))
            writing.result()
            torn = [values for values in seen if values and values != values[:1] * 3]
            same("reads that saw half an append", torn, [])

    def test_of_writers_in_many_threads_one_wins_each_round(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store, ThreadPoolExecutor(4) as pool:
            won = sum(pool.map(partial(race, store, rounds=50), "abcd"))
            same("appends of 4 threads", appended(store), (won, won))

    def test_a_thread_is_held_by_one_at_a_time(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            same("hold t, t, u", (store.hold("t"), store.hold("t"), store.hold("u")), (True, False, True))
            store.release("t")
            same("hold t once it was released, u", (store.hold("t"), store.hold("u")), (True, False))
            store.release("t")
            store.release("u")
            same("hold each odd name", [name for name in ODD_NAMES if not store.hold(name)], [])
            for name in ODD_NAMES:
                store.release(name)

    def test_close_finishes_what_is_under_way_and_the_store_opens_again(self, tmp_path: Path) -> None:
        store, closing_began = self.make(tmp_path), Event()

        def late() -> None:
            closing_began.wait(1)
            store.append("t", None, b"1", {"a": b"1"})

        store.executor.submit(late)
        closing_began.set()
        store.close()
        with closing(store):
            same("rows that the executor wrote", store.get("a"), b"1")
            same("the executor after a close", store.executor.submit(store.head, "t").result(), b"1")

    def test_a_thread_comes_back_as_it_was(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            script = [ToolCall("ask", {"question": "why?"}, "c1"), "one", "two", ToolCall("long", {}, "c2"), "three"]
            first = _agent(store, *script)
            said = [message for text in ("a", "b", "c") for message in first.run_sync(text, "t").messages]
            state = _agent(store).get_state("t", subagents=True)
            same("messages", list(state.messages), said)
            same("turns", (state.turn, state.status), (3, "ended"))
            same("what the child was asked and said", _texts(state.subagents["c1"]), ["why?", "because"])
            same("after turn 1", list(_agent(store).get_state("t", at=1).messages), said[:4])
            same("boundaries", len(_agent(store).history("t")), 3)
            same("the next turn", _agent(store, "four").run_sync("d", "t").text, "four")

    def test_a_torn_row_is_a_named_error_and_the_turn_before_it_still_loads(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            for name in ("cut", "flipped", "empty"):
                for text in ("one", "two"):
                    _agent(store, text).run_sync("go", name)
                prefix = log_prefix(name, ())
                key, data = store.rows(prefix, prefix + "~")[-1]
                torn = {"cut": data[:-3], "flipped": data[:-8] + bytes([data[-8] ^ 1]) + data[-7:], "empty": b""}
                store.append(name, store.head(name), store.head(name), {key: torn[name]})
                with raises(CheckpointError, "loading a torn thread"):
                    _agent(store).get_state(name)
                same("the turn before", _texts(_agent(store).get_state(name, at=1)), ["go", "one"])

    def test_a_fork_stands_alone_and_a_deleted_thread_leaves_nothing(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            agent = _agent(store, ToolCall("long", {}, "c1"), "one")
            said = agent.run_sync("go", "t").messages
            agent.fork("t", thread_id="u")
            agent.delete("t")
            same("threads", [info.thread_id for info in agent.threads()], ["u"])
            with raises(UnknownThread, "reading a deleted thread"):
                agent.get_state("t")
            same("the fork's messages", list(_agent(store).get_state("u").messages), list(said))
            agent.delete("u")
            store.close()
            same("rows once all threads are deleted", store.keys("", "~"), [])

    def test_a_second_runner_of_a_thread_is_refused(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            second = _agent(store, "never")

            async def reply(request: Request) -> str:
                with raises(ThreadBusy, "a run of a thread that runs"):
                    await second.run("me too", "t")
                return "done"

            turn = Agent(ScriptedModel(reply), checkpointer=store).run_sync("go", "t")
            same("the first run", (turn.status, turn.text, turn.saved), ("ended", "done", True))
            same("the second, afterwards", second.run_sync("go", "t").text, "never")

    def test_what_a_thread_takes_up_grows_with_what_is_said(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as store:
            agent = Agent(ScriptedModel(lambda request: os.urandom(500).hex()), checkpointer=store)
            agent.run_sync("begin", "t")
            store.close()
            before = store.size()
            for _ in range(200):
                agent.run_sync(os.urandom(500).hex(), "t")
            store.close()
            grown, said = store.size() - before, 200 * 2000
            if grown > said:  # Hexadecimal text compresses to a half, so this leaves room for as much again.
                raise AssertionError(f"200 turns that say {said} bytes take up {grown}, expected no more than they say")


@tool
async def ask(question: str, ctx: ToolContext) -> str:
    """Ask a child."""
    return (await ctx.run(Agent(ScriptedModel(["because"]), name="child"), question)).text


@tool
async def long() -> str:
    """Say something long."""
    return os.urandom(100_000).hex()


def _agent(store: Store, *script: str | ToolCall) -> Agent:
    return Agent(ScriptedModel(script), [ask, long], checkpointer=store)


def _texts(state: Any) -> list[str]:
    return [message.text for message in state.messages]


def race(store: Store, name: str, rounds: int) -> int:
    """Append *rounds* times to a thread whose head counts its rows; return how often nobody else was first."""
    won = 0
    for _ in range(rounds):
        head = store.head("t")
        count = int(head or b"0") + 1
        try:
            store.append("t", head, b"%d" % count, {f"race/{count:06}": name.encode()}, timeout=60)
        except ThreadConflict:
            continue
        won += 1
    return won


def appended(store: Store) -> tuple[int, int]:
    """Return the count in the head, and the number of rows, of the thread of `race`."""
    return int(store.head("t") or b"0"), len(store.keys("race/", "race0"))


def same(what: str, found: Any, expected: Any) -> None:
    """Fail, naming *what*, unless *found* equals *expected*."""
    if found != expected:
        raise AssertionError(f"{what}: expected {reprlib.repr(expected)}, found {reprlib.repr(found)}")


@contextmanager
def raises(error: type[Exception], what: str) -> Generator[None]:
    """Fail, naming *what*, unless *error* is raised inside."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"{what}: expected {error.__name__}, nothing was raised")
