"""The contract of a store fails on stores that break it, each in the test that asks for what it breaks."""

import time

import pytest

from minideep import MemoryCheckpointer, ThreadConflict
from minideep.checkpoint import threaded
from minideep.checkpoint.memory import MemoryRows
from minideep.ports import Range, Retention
from minideep.testing import StoreContract


class DropsBlobs(MemoryRows):
    """Looks for references before its transaction, and removes the blob after it."""

    def append(self, thread, expected, head, rows, deletes=(), **how):
        names = {key.split("/")[1] for key in deletes if key.startswith("ref/")}
        gone = [name for name in names if len(self.read(Range(f"ref/{name}/", f"ref/{name}0"))[0]) == 1]
        time.sleep(0.0005 * bool(gone))
        super().append(thread, expected, head, rows, deletes, **how)
        with self._lock:
            for name in gone:
                self._remove(f"blob/{name}")


class OrdersByWords(MemoryRows):
    """Has a collation for people."""

    def read(self, *ranges):
        return [sorted(found, key=lambda row: row[0].lower()) for found in super().read(*ranges)]


class ReadsFromTheStart(MemoryRows):
    """Ignores `reverse`."""

    def read(self, *ranges):
        return super().read(*(Range(one.start, one.stop, one.limit) for one in ranges))


class ReadsOneByOne(MemoryRows):
    """Each range is of a moment of its own."""

    def read(self, *ranges):
        found = []
        for one in ranges:
            found += super().read(one)
            time.sleep(0.0002)
        return found


class HasFewParameters(MemoryRows):
    """As SQLite had: at most 999 in a statement."""

    def append(self, thread, expected, head, rows, deletes=(), **how):
        if len(rows) > 999:
            raise OSError("too many SQL variables")
        super().append(thread, expected, head, rows, deletes, **how)


class KnowsItsHeads(MemoryRows):
    """An append whose head is there already has landed before, it thinks."""

    def append(self, thread, expected, head, rows, deletes=(), **how):
        if self.read(Range(f"head/{thread}"))[0] != [(f"head/{thread}", head)]:
            super().append(thread, expected, head, rows, deletes, **how)


class Unfenced(MemoryCheckpointer):
    """Appends, whoever has the thread."""

    async def append(self, *change, lease=None, release=False):
        await super().append(*change)
        if release:
            lease.release()


class FencesOutside(MemoryCheckpointer):
    """Takes the side of whoever appends first."""

    async def append(self, *change, lease=None, release=False):
        if lease is not None and lease.over:
            lease = None
        await super().append(*change, lease=lease, release=release)


class KeepsThreads(MemoryCheckpointer):
    """Does not release with an append."""

    async def append(self, *change, lease=None, release=False):
        await super().append(*change, lease=lease)


class GivesUpTooEarly(MemoryCheckpointer):
    """Releases a thread whose append failed."""

    async def append(self, *change, lease=None, release=False):
        try:
            await super().append(*change, lease=lease, release=release)
        except ThreadConflict:
            lease.release()
            raise


class TakesToLook(MemoryCheckpointer):
    """Asks by taking."""

    async def held(self, thread):
        if (opened := await self.open(thread)) is None:
            return True
        time.sleep(0.0005)
        opened.lease.release()
        return False


class NeverWaits(MemoryCheckpointer):
    """Refuses at once, however long it may wait."""

    async def open(self, thread, *, wait=0.0, purpose="turn"):
        return await super().open(thread, purpose=purpose)


class ForgetsHeads(MemoryCheckpointer):
    """Gives all heads at once."""

    async def heads(self, after="", limit=100):
        return await super().heads("", 10_000)


BROKEN = [
    (DropsBlobs, "a_blob_that_one_thread_drops_while_another_takes_it_is_there"),
    (OrdersByWords, "keys_are_ordered_by_their_characters_and_not_as_words"),
    (ReadsFromTheStart, "a_range_may_be_cut_off_and_read_from_its_end"),
    (ReadsOneByOne, "all_ranges_of_a_read_are_of_one_moment"),
    (HasFewParameters, "an_append_may_have_very_many_rows_and_deletes"),
    (KnowsItsHeads, "an_append_that_leaves_the_head_as_it_is_compares_and_changes"),
    (KnowsItsHeads, "an_append_that_landed_and_is_tried_again_conflicts_and_its_head_says_so"),
    (Unfenced, "who_no_longer_has_a_thread_cannot_append_to_it_and_the_new_holder_can"),
    (FencesOutside, "who_no_longer_has_a_thread_cannot_append_to_it_and_the_new_holder_can"),
    (KeepsThreads, "an_append_gives_up_the_thread_if_it_is_told_to_and_lands"),
    (GivesUpTooEarly, "an_append_gives_up_the_thread_if_it_is_told_to_and_lands"),
    (TakesToLook, "held_says_who_has_a_thread_and_takes_nothing"),
    (NeverWaits, "who_waits_for_a_thread_gets_it_when_it_is_free_or_gives_up"),
    (ForgetsHeads, "heads_come_in_order_some_at_a_time"),
]


@pytest.mark.parametrize(("kind", "name"), BROKEN, ids=[f"{kind.__name__}-{name[:30]}" for kind, name in BROKEN])
def test_a_store_that_breaks_a_promise_fails_the_test_that_asks_for_it(tmp_path, kind, name):
    class Contract(StoreContract):
        def make(self, folder):
            return threaded(kind(Retention())) if issubclass(kind, MemoryRows) else kind()

    with pytest.raises((AssertionError, OSError)):
        getattr(Contract(), f"test_{name}")(tmp_path)
