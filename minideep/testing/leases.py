"""The contract of opening threads: one holder at a time, and appends that only the holder can make."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from ..errors import ThreadConflict
from ..ports import Store
from .checks import raises, same
from .plain import PlainStore

ODD_NAMES = ["a", "a/b", "a b", "ä%2F", "head/x", "..", "A", "a\x00", "😀", "x" * 500]
"""Threads may have any name."""


class LeaseContract:
    """The promises of `open`, of leases and of `held`; a part of `StoreContract`."""

    def make(self, folder: Path) -> Store:
        """Return a store that may use *folder*, and is empty if the folder is."""
        raise NotImplementedError(f"{type(self).__name__}.make must return a store")

    def test_a_thread_is_opened_by_one_at_a_time_with_its_head(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            opened = store.opened("t")
            same("the head of a new thread", (opened.head, opened.lease.lost), (None, False))
            same("open t once more", store.open("t"), None)
            store.append("t", None, b"1", {}, lease=opened.lease)
            opened.lease.release()
            opened.lease.release()  # Once more is allowed.
            opened = store.opened("t")
            same("the head of a thread that was saved", opened.head, b"1")
            store.opened("u").lease.release()
            opened.lease.release()

    def test_threads_of_any_name_are_open_at_the_same_time(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            same("open each odd name", [name for name in ODD_NAMES if not store.hold(name)], [])
            same("open each once more", [name for name in ODD_NAMES if store.open(name)], [])
            for name in ODD_NAMES:
                store.release(name)
            same("held once released", [name for name in ODD_NAMES if store.held(name)], [])

    def test_who_waits_for_a_thread_gets_it_when_it_is_free_or_gives_up(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store, ThreadPoolExecutor(1) as pool:
            first = store.opened("t")
            same("open t, waiting a little", store.open("t", wait=0.05), None)
            waiting = pool.submit(store.open, "t", wait=60.0)
            same("open t while somebody waits", store.open("t"), None)
            store.append("t", None, b"1", {}, lease=first.lease, release=True)
            second = waiting.result()
            if second is None:
                raise AssertionError("open t, waiting 60 s: expected the thread, found None")
            same("the head that who waited finds", second.head, b"1")
            second.lease.release()

    def test_maintenance_and_a_turn_do_not_have_a_thread_at_the_same_time(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store, ThreadPoolExecutor(1) as pool:
            turn = store.opened("t")
            same("maintenance while a turn runs", store.open("t", purpose="maintenance"), None)
            turn.lease.release()
            maintenance = store.open("t", purpose="maintenance")
            if maintenance is None:
                raise AssertionError("maintenance of a free thread: expected the thread, found None")
            waiting = pool.submit(store.open, "t")
            maintenance.lease.release()
            opened = waiting.result()  # It waited for the moment that maintenance takes, or came after it.
            if opened is None:
                raise AssertionError("open t beside maintenance: expected the thread, found None")
            opened.lease.release()

    def test_an_append_gives_up_the_thread_if_it_is_told_to_and_lands(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            lease = store.opened("t").lease
            with raises(ThreadConflict, "an append to another head"):
                store.append("t", b"0", b"1", {}, lease=lease, release=True)
            same("held after an append that failed", store.held("t"), True)
            store.append("t", None, b"1", {}, lease=lease, release=True)
            same("held after the last append", store.held("t"), False)
            store.opened("t").lease.release()

    def test_who_no_longer_has_a_thread_cannot_append_to_it_and_the_new_holder_can(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            old = store.opened("t").lease
            store.append("t", None, b"1", {"a": b"1"}, lease=old)
            old.release()
            with raises(ThreadConflict, "an append under a lease that was released"):
                store.append("t", b"1", b"2", {"a": b"2"}, lease=old)
            new = store.opened("t").lease
            with raises(ThreadConflict, "an append of the old holder while another one has the thread"):
                store.append("t", b"1", b"2", {"a": b"2"}, lease=old)
            same("rows after refused appends", store.rows(), [("a", b"1"), ("head/t", b"1")])
            store.append("t", b"1", b"3", {"a": b"3"}, lease=new)
            with raises(ThreadConflict, "an append of the old holder that expects the newest head"):
                store.append("t", b"3", b"4", {"a": b"4"}, lease=old)
            same("the head that the new holder wrote", store.head("t"), b"3")
            new.release()

    def test_a_lease_that_is_released_is_not_lost(self, tmp_path: Path) -> None:
        with PlainStore(self.make(tmp_path)) as store:
            lost, lease = Event(), store.opened("t").lease
            lease.on_lost(lost.set)
            lease.release()
            store.opened("t").lease.release()
            same("lost, and the callback was called", (lease.lost, lost.is_set()), (False, False))

    def test_held_says_who_has_a_thread_and_takes_nothing(self, tmp_path: Path) -> None:
        done = Event()

        def look() -> set[bool]:
            seen = set[bool]()
            while not done.is_set():
                seen.add(store.held("t"))
            return seen

        with PlainStore(self.make(tmp_path)) as store, ThreadPoolExecutor(2) as pool:
            same("held, of a thread that nobody ever had", store.held("t"), False)
            looking = [pool.submit(look) for _ in range(2)]
            try:
                refused = 0
                for _ in range(200):
                    opened = store.open("t")
                    refused += opened is None
                    if opened is not None:
                        opened.lease.release()
            finally:
                done.set()
            same("opens that failed beside two who look", refused, 0)
            for one in looking:
                one.result()
            opened = store.opened("t")
            same("held while it is open, u", (store.held("t"), store.held("u")), (True, False))
            opened.lease.release()
            same("held once it was released", store.held("t"), False)
