"""`CheckedStore`: one a store object, and every failure a `CheckpointError`."""

import gc
from hashlib import sha256

import pytest
from harness.stores import plain

from minideep import CheckpointError, ConfigError, MemoryCheckpointer, ThreadConflict
from minideep.checkpoint import CheckedStore, open_store
from minideep.checkpoint.format import SEGMENT_SIZE, encode, read_header
from minideep.checkpoint.journal import Journal
from minideep.checkpoint.layout import Head, lock_name
from minideep.checkpoint.log import Log
from minideep.checkpoint.maintenance import put
from minideep.checkpoint.rewriting import Rewrite
from minideep.events import FileWritten, Noted
from minideep.state import FileEntry, State


class Broken(MemoryCheckpointer):
    """Raises *error* wherever it is asked."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    async def fail(self, *args, **kwargs):
        raise self.error

    read = append = open = heads = held = fail


def test_all_who_open_a_store_share_one_checked_store_for_as_long_as_it_is_used():
    store = MemoryCheckpointer()
    checked = open_store(store)
    assert open_store(store) is checked
    assert open_store(checked) is checked
    assert open_store(MemoryCheckpointer()) is not checked
    del checked
    gc.collect()
    assert open_store(store).inner is store


class Half:
    """Lacks most of the port."""

    async def read(self, *ranges):
        return [[] for _ in ranges]


@pytest.mark.parametrize(
    "store",
    [[], {}, None, 3, Half(), MemoryCheckpointer],
    ids=lambda store: getattr(store, "__name__", type(store).__name__),
)
def test_what_is_no_store_is_refused(store):
    with pytest.raises(ConfigError, match="checkpointer must be a `Store`"):
        open_store(store)


def test_the_members_that_a_store_lacks_are_named():
    with pytest.raises(ConfigError, match="it has no 'open', 'append', 'heads', 'held', 'aclose', 'retention'"):
        open_store(Half())


@pytest.mark.parametrize("error", [OSError("full"), KeyError("x"), RuntimeError("closed"), CheckpointError("damaged")])
def test_whatever_a_store_raises_is_a_checkpoint_error(error):
    store = open_store(Broken(error))
    calls = [
        lambda: store.head("t"),
        lambda: store.get("a"),
        lambda: store.rows("a", "b"),
        lambda: store.keys("a", "b"),
        lambda: list(store.all_heads()),
        lambda: store.wait_for(lambda: store.open("t")),
        lambda: store.wait_for(lambda: store.has("t")),
        lambda: store.wait_for(lambda: store.held("t")),
        lambda: store.put("t", None, b"1", {}),
        lambda: put(store, "t", None, b"1", {}, []),
    ]
    for call in calls:
        with pytest.raises(CheckpointError, match=r"full|KeyError|closed|damaged"):
            call()


def test_a_store_that_waited_too_long_says_it_in_its_own_words():
    store = open_store(Broken(TimeoutError("others have it")))
    with pytest.raises(CheckpointError, match=r"^others have it$"):
        store.put("t", None, b"1", {})


def test_a_put_that_landed_is_done_though_its_report_was_lost_and_a_conflict_is_not():
    class Mute(MemoryCheckpointer):
        async def append(self, *args, **kwargs):
            await super().append(*args, **kwargs)
            raise OSError("lost")

    store = open_store(Mute())
    put(store, "t", None, b"1", {"a": b"1"}, [])
    assert store.get("a") == b"1"
    with pytest.raises(ThreadConflict):
        put(store, "t", None, b"2", {}, [])


def test_the_name_of_a_lock_beside_a_thread_is_never_that_of_a_thread():
    names = {lock_name(thread, purpose) for thread in ("t", "t/a", "x" * 500) for purpose in ("a", "b")}
    assert len(names) == 6
    assert all(len(name) > 500 for name in names)


def new_batch(store):
    return Rewrite(Log(open_store(store), "t", None, Head(0, b"epoch", b""), {}))


def test_a_segment_refers_to_the_blobs_of_its_own_events_and_to_no_other():
    store = MemoryCheckpointer()
    batch, content = new_batch(store), "x" * 200_000
    large = FileWritten("/a", content, len(content), sha256(content.encode()).hexdigest(), 1.0)
    small = [encode(number, Noted("me", "k", "x" * 90_000)) for number in range(1, 12)]
    small.append(encode(12, Noted("me", "k", "x" * (SEGMENT_SIZE - sum(map(len, small)) - 60))))
    batch.events((), [*((data, False) for data in small), (encode(13, large), False)])
    batch.state((), State(number=13))
    batch.commit_now()
    blobs = [read_header(data, key).blobs for key, data in plain(store).rows("log/", "log0")]
    assert blobs == [(), (large.sha256,)]


def test_a_snapshot_that_is_too_large_leaves_no_blob_behind():
    store = MemoryCheckpointer()
    batch = new_batch(store)
    files = {"/a": FileEntry("y" * 10_000, 10_000, "", 1.0)}
    with pytest.raises(CheckpointError):
        batch.snapshot((), State(files=files, notes={"me": {"k": "z" * 2**25}}, number=1))
    batch.events((), [(encode(1, Noted("me", "k", 1)), False)])
    batch.state((), State(number=1))
    batch.commit_now()
    assert plain(store).keys("blob/", "blob0") == []


def test_a_journal_that_was_never_saved_is_current_while_the_store_has_nothing():
    journal = Journal("t", CheckedStore(MemoryCheckpointer()))
    assert journal.is_current(None)
    assert journal.unsaved == 0
