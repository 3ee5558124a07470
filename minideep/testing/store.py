"""The contract of every store, as tests."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from ..agent import Agent
from ..checkpoint import log_prefix
from ..context import ToolContext
from ..errors import CheckpointError, ThreadBusy, ThreadConflict, UnknownThread
from ..messages import ToolCall
from ..models import ScriptedModel
from ..ports import Range, Request, Store
from ..tools import tool
from .checks import appended, race, raises, same
from .leases import ODD_NAMES, LeaseContract
from .plain import PlainStore

ROUNDS = 300
"""How often two threads drop and take a blob at the same moment."""


class StoreContract(LeaseContract):
    """The promises of every store. A store that outlives its object inherits `DurableStoreContract`."""

    def test_what_is_not_there_is_nothing(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            same("of an empty store", (store.head("t"), store.get("a")), (None, None))
            same("of an empty store", (store.rows(), store.keys()), ([], []))

    def test_values_come_back_as_they_were_put(self, tmp_path: Path) -> None:
        values = {"a": b"", "b": os.urandom(3_000_000), "c": bytes(1000), "d": bytes(range(256))}
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", values)
            same("rows", dict(store.rows("a", "e")), values)
            same("one by one", {key: store.get(key) for key in values}, values)

    def test_rows_are_in_the_order_of_their_keys_and_in_the_range(self, tmp_path: Path) -> None:
        keys = ["log/t//0010", "log/t//0002", "log/t/x/0001", "log/t-/1", "log/T//1", "log/t/", "log/t0"]
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {key: key.encode() for key in keys})
            same("keys from log/t/ to log/t0", store.keys("log/t/", "log/t0"), [*sorted(keys[:3] + keys[5:6])])
            same("rows like keys", store.rows("log/", "log0"), [(key, key.encode()) for key in sorted(keys)])
            same("an empty range", store.rows("log/t0", "log/t0"), [])

    def test_a_range_may_be_cut_off_and_read_from_its_end(self, tmp_path: Path) -> None:
        rows = [(f"log/t//{number:04}", b"%d" % number) for number in range(10)]
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", dict(rows))
            ends = ("log/t//", "log/t/0")
            found = store.read(
                Range(*ends, limit=3),
                Range(*ends, limit=3, reverse=True),
                Range(*ends, reverse=True),
                Range(*ends, limit=0),
                Range("log/t//0004"),
                Range("log/t//0004x"),
                Range("log/t//0004", "log/t//0006"),
            )
            same("the first 3", found[0], rows[:3])
            same("the last 3, the last one first", found[1], rows[:-4:-1])
            same("all from the end", found[2], rows[::-1])
            same("none, one key, a missing key, two", found[3:], [[], [rows[4]], [], rows[4:6]])
            keys = store.read(Range(*ends, limit=2, reverse=True, values=False))[0]
            same("keys alone", [key for key, _ in keys], ["log/t//0009", "log/t//0008"])
            same("no range", store.read(), [])

    def test_keys_are_ordered_by_their_characters_and_not_as_words(self, tmp_path: Path) -> None:
        keys = [
            f"log/{name}"
            for name in ("A", "B", "a", "b", "_", "-", "%2F", "0", "10", "2", "~", ",", "a-", "aB", *'!"#$%&')
        ]
        long = [f"log/{'k' * 1990}{number}" for number in range(3)]
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", dict.fromkeys([*keys, *long], b""))
            same("keys in order", store.keys("log/", "log0"), sorted([*keys, *long]))
            same("keys from A to a", store.keys("log/A", "log/a"), ["log/A", "log/B", "log/_"])
            same("a long key", store.get(long[1]), b"")

    def test_an_append_may_have_very_many_rows_and_deletes(self, tmp_path: Path) -> None:
        rows = {f"log/{number:06}": b"%d" % number for number in range(3_000)}
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", rows)
            same("number of rows", len(store.rows("log/", "log0")), len(rows))
            store.append("t", b"1", b"2", {"log/new": b""}, list(rows))
            same("rows once all others were deleted", store.keys("log/", "log0"), ["log/new"])

    def test_heads_come_in_order_some_at_a_time(self, tmp_path: Path) -> None:
        names = sorted([f"t{number}" for number in range(25)])
        with PlainStore(self.make(tmp_path)) as store:
            same("heads of an empty store", store.heads(), [])
            for name in names:
                store.append(name, None, name.encode(), {"log/x": b"", "headless": b""} if name == "t0" else {})
            first = store.heads(limit=10)
            same("the first 10", first, [(f"head/{name}", name.encode()) for name in names[:10]])
            rest = store.heads(first[-1][0], 100)
            same("the rest", [value.decode() for _, value in rest], names[10:])
            same("after the last", store.heads(rest[-1][0]), [])

    def test_threads_do_not_see_each_other_whatever_they_are_called(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            for name in ODD_NAMES:
                store.append(name, None, name.encode(), {})
            same("heads", {name: store.head(name) for name in ODD_NAMES}, {name: name.encode() for name in ODD_NAMES})
            same("number of heads", len(store.keys("head/", "head0")), len(ODD_NAMES))

    def test_rows_that_belong_to_no_thread_are_changed_under_a_lease_alone(self, tmp_path: Path) -> None:
        name = "files".ljust(501, "~")  # Longer than the id of any thread, as that of a namespace of files is.
        with PlainStore(self.make(tmp_path)) as store:
            for number, deletes in enumerate(([], ["file/n/!a"])):
                opened = store.opened(name)
                same("the head of what is no thread", opened.head, None)
                row = {f"file/n/!{'ab'[number]}": b"1"}
                store.append(name, None, None, row, deletes, lease=opened.lease, release=True)
                with raises(ThreadConflict, "an append with a lease that was given up"):
                    store.append(name, None, None, {"file/n/!c": b"1"}, lease=opened.lease)
            same("rows without a thread, and heads", (store.keys("file/", "file0"), store.heads()), (["file/n/!b"], []))

    def test_an_append_deletes_puts_and_replaces_the_head(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"a": b"1", "b": b"1"})
            store.append("t", b"1", b"2", {"a": b"2", "c": b"2"}, ["b"])
            same("rows", store.rows("a", "d"), [("a", b"2"), ("c", b"2")])
            same("head", store.head("t"), b"2")

    def test_an_append_to_another_head_changes_nothing(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"a": b"1"})
            before = store.rows()
            for expected in (None, b"", b"0", b"12"):
                with raises(ThreadConflict, f"an append to head {expected!r} where it is b'1'"):
                    store.append("t", expected, b"2", {"a": b"2", "b": b"2"}, ["a"])
            with raises(ThreadConflict, "an append to a head that is not there"):
                store.append("u", b"1", b"2", {"b": b"2"})
            same("rows after refused appends", store.rows(), before)

    def test_an_append_that_deletes_what_is_not_there_changes_nothing(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"a": b"1", "b": b"1"})
            before = store.rows()
            with raises(ThreadConflict, "an append that deletes a missing row"):
                store.append("t", b"1", b"2", {"a": b"2", "c": b"2"}, ["a", "missing", "b"])
            same("rows after a refused append", store.rows(), before)

    def test_a_thread_whose_head_was_removed_can_be_begun_again(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"a": b"1"})
            store.append("t", b"1", None, {}, ["a"])
            same("rows of a removed thread", store.rows(), [])
            store.append("t", None, b"2", {"a": b"2"})
            same("head", store.head("t"), b"2")

    def test_a_blob_is_written_once_and_goes_with_its_last_reference(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"blob/x": b"first", "ref/x/t": b"", "blob/xy": b"", "ref/xy/t": b""})
            store.append("u", None, b"1", {"blob/x": b"second", "ref/x/u": b""})
            same("a blob that was put twice", store.get("blob/x"), b"first")
            store.append("t", b"1", None, {}, ["ref/x/t"])
            same("a blob with one reference left", store.get("blob/x"), b"first")
            store.append("u", b"1", b"2", {"ref/x/v": b""}, ["ref/x/u"])
            same("a blob that is let go and taken at once", store.get("blob/x"), b"first")
            store.append("u", b"2", b"3", {}, ["ref/x/v"])
            same("blobs once x has no reference", store.keys("blob/", "blob0"), ["blob/xy"])

    def test_an_append_that_leaves_the_head_as_it_is_compares_and_changes(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"a": b"", "b": b""})
            store.append("t", b"1", b"1", {"ab": b"merged"}, ["a", "b"])
            same("rows that were merged under one head", store.rows("a", "c"), [("ab", b"merged")])
            with raises(ThreadConflict, "the same merge once more"):
                store.append("t", b"1", b"1", {"ab": b"again"}, ["a", "b"])
            with raises(ThreadConflict, "a merge under a head that is not there"):
                store.append("t", b"2", b"2", {"ab": b"again"})
            same("rows after refused merges", store.rows("a", "c"), [("ab", b"merged")])

    def test_an_append_that_landed_and_is_tried_again_conflicts_and_its_head_says_so(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            store.append("t", None, b"1", {"a": b"1"})
            for _ in range(2):  # Whoever did not hear that it landed finds its own head.
                with raises(ThreadConflict, "an append that landed, once more"):
                    store.append("t", None, b"1", {"a": b"other"})
                same("head and row", (store.head("t"), store.get("a")), (b"1", b"1"))

    def test_a_blob_that_one_thread_drops_while_another_takes_it_is_there(self, tmp_path: Path) -> None:
        def take(number: int) -> None:
            store.append("u", b"0", b"1", {f"blob/{number}": b"x", f"ref/{number}/u": b""})
            store.append("u", b"1", b"0", {}, [])

        def drop(number: int) -> None:
            store.append("t", b"1", b"0", {}, [f"ref/{number}/t"])

        with PlainStore(self.make(tmp_path)) as store, ThreadPoolExecutor(2) as pool:
            store.append("u", None, b"0", {})
            store.append("t", None, b"0", {})
            for number in range(ROUNDS):
                store.append("t", b"0", b"1", {f"blob/{number}": b"x", f"ref/{number}/t": b""})
                for done in [pool.submit(take, number), pool.submit(drop, number)]:
                    done.result()
            names = [key.split("/")[1] for key in store.keys("ref/", "ref0")]
            dangling = [name for name in names if store.get(f"blob/{name}") is None]
            same("references to blobs that are gone", (len(names), dangling), (ROUNDS, []))

    def test_all_ranges_of_a_read_are_of_one_moment(self, tmp_path: Path) -> None:
        def write() -> None:
            for number in range(150):
                rows = {f"{kind}/x": b"%d" % number for kind in ("base", "log", "run")}
                store.append("t", store.head("t"), b"%d" % number, rows)

        parts = [Range("base/x"), Range("log/", "log0"), Range("run/", "run0"), Range("head/t")]
        with PlainStore(self.make(tmp_path)) as store, ThreadPoolExecutor(1) as pool:
            writing, seen = pool.submit(write), set[tuple[bytes, ...]]()
            while not writing.done():
                seen.add(tuple(value for found in store.read(*parts) for _, value in found))
            writing.result()
            torn = [values for values in seen if values and values != values[:1] * 4]
            same("reads that saw half an append", torn, [])

    def test_rows_are_of_one_moment_while_somebody_writes(self, tmp_path: Path) -> None:
        def write() -> None:
            old: list[str] = []
            for number in range(150):
                new = {f"log/{number + part}": b"%d" % number for part in (0, 1000, 2000)}
                store.append("t", store.head("t"), b"%d" % number, new, old)
                old = list(new)

        with PlainStore(self.make(tmp_path)) as store, ThreadPoolExecutor(1) as pool:
            writing, seen = pool.submit(write), set[tuple[bytes, ...]]()
            while not writing.done():
                seen.add(tuple(value for _, value in store.rows("log/", "log0")))
            writing.result()
            torn = [values for values in seen if values and values != values[:1] * 3]
            same("reads that saw half an append", torn, [])

    def test_of_writers_in_many_threads_one_wins_each_round(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store, ThreadPoolExecutor(4) as pool:
            won = sum(pool.map(partial(race, store, rounds=50), "abcd"))
            same("appends of 4 threads", appended(store), (won, won))

    def test_a_thread_comes_back_as_it_was(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            script = [ToolCall("ask", {"question": "why?"}, "c1"), "one", "two", ToolCall("long", {}, "c2"), "three"]
            first = _agent(store.store, *script)
            said = [message for text in ("a", "b", "c") for message in first.run_sync(text, "t").messages]
            state = _agent(store.store).get_state("t", subagents=True)
            same("messages", list(state.messages), said)
            same("turns", (state.turn, state.status), (3, "ended"))
            same("what the child was asked and said", _texts(state.subagents["c1"]), ["why?", "because"])
            same("after turn 1", list(_agent(store.store).get_state("t", at=1).messages), said[:4])
            same("boundaries", len(_agent(store.store).history("t")), 3)
            same("the next turn", _agent(store.store, "four").run_sync("d", "t").text, "four")

    def test_a_torn_row_is_a_named_error_and_the_turn_before_it_still_loads(self, tmp_path: Path) -> None:
        go = "go " * 1000  # Shorter turns may stand in one row.
        with PlainStore(self.make(tmp_path)) as store:
            for name in ("cut", "flipped", "empty"):
                for text in ("one", "two"):
                    _agent(store.store, text).run_sync(go, name)
                prefix = log_prefix(name, ())
                key, data = store.rows(prefix, prefix + "~")[-1]
                torn = {"cut": data[:-3], "flipped": data[:-8] + bytes([data[-8] ^ 1]) + data[-7:], "empty": b""}
                store.append(name, store.head(name), store.head(name), {key: torn[name]})
                with raises(CheckpointError, "loading a torn thread"):
                    _agent(store.store).get_state(name)
                same("the turn before", _texts(_agent(store.store).get_state(name, at=1)), [go, "one"])

    def test_a_fork_stands_alone_and_a_deleted_thread_leaves_nothing(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            agent = _agent(store.store, ToolCall("long", {}, "c1"), "one")
            said = agent.run_sync("go", "t").messages
            agent.fork("t", thread_id="u")
            agent.delete("t")
            same("threads", [info.thread_id for info in agent.threads()], ["u"])
            with raises(UnknownThread, "reading a deleted thread"):
                agent.get_state("t")
            same("the fork's messages", list(_agent(store.store).get_state("u").messages), list(said))
            agent.delete("u")
            store.close()
            same("rows once all threads are deleted", store.keys(), [])

    def test_a_second_runner_of_a_thread_is_refused(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            second = _agent(store.store, "never")

            async def reply(request: Request) -> str:
                with raises(ThreadBusy, "a run of a thread that runs"):
                    await second.run("me too", "t")
                return "done"

            turn = Agent(ScriptedModel(reply), checkpointer=store.store).run_sync("go", "t")
            same("the first run", (turn.status, turn.text, turn.saved), ("ended", "done", True))
            same("the second, afterwards", second.run_sync("go", "t").text, "never")

    def test_what_a_thread_takes_up_grows_with_what_is_said(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            agent = Agent(ScriptedModel(lambda request: os.urandom(500).hex()), checkpointer=store.store)
            agent.run_sync("begin", "t")
            before = _size(store)
            for _ in range(200):
                agent.run_sync(os.urandom(500).hex(), "t")
            store.close()
            grown, said = _size(store) - before, 200 * 2000
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


def _size(store: PlainStore) -> int:
    return sum(len(key) + len(value) for key, value in store.rows())


def _texts(state: Any) -> list[str]:
    return [message.text for message in state.messages]
