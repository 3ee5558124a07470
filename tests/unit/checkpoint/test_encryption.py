"""Encryption at rest: what reaches the store inside, what is refused, and that nothing else changes for an agent."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness.processes import python
from harness.stores import DistantStore, InstrumentedStore, plain

from minideep import (
    AESGCM,
    Agent,
    Approve,
    CheckpointError,
    ConfigError,
    CorruptSegment,
    DiskCheckpointer,
    EncryptedCheckpointer,
    MemoryCheckpointer,
    Retention,
    ThreadConflict,
    ToolCall,
    create_deep_agent,
    tool,
)
from minideep.backends import StoreBackend
from minideep.checkpoint import log_prefix, open_store, read_head
from minideep.checkpoint.files import read_file_row
from minideep.checkpoint.format import read_blob, read_segment, read_snapshot
from minideep.checkpoint.layout import read_key_row, read_run_row
from minideep.checkpoint.maintenance import expire, read_mark
from minideep.models import ScriptedModel
from minideep.testing import tool_context
from minideep.testing.plain import PlainStore

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
SECRET = "the-word-that-nobody-may-read"


def sealed(inner, *keys):
    return EncryptedCheckpointer(inner, AESGCM(list(keys) or KEY))


def agent(store, *script, **more):
    return Agent(ScriptedModel(script), [speak], checkpointer=store, **more)


@tool
def speak(text: str, size: int) -> str:
    """Say something of that size."""
    return text * size


def replaced(store, key, value):
    """Put a value into the store inside, as somebody does who can write there and has no key."""
    thread = key.split("/")[1]
    head = plain(store).head(thread)
    plain(store).append(thread, head, value if key.startswith("head/") else head, {key: value})


def segments(inner, thread):
    return plain(inner).rows(log_prefix(thread, ()), log_prefix(thread, ()) + "~")


# ---- what the store inside has


@pytest.mark.parametrize("keys", [[KEY], [OTHER, KEY]])
def test_another_process_with_the_key_goes_on_and_the_folder_holds_nothing_that_was_said(tmp_path, keys):
    python(f"""
from minideep import *
from minideep.models import ScriptedModel
from minideep.backends import StoreBackend
from minideep.testing import tool_context
with EncryptedCheckpointer(DiskCheckpointer({str(tmp_path)!r}), AESGCM({KEY!r})) as store:
    StoreBackend(store, ("n",)).write(tool_context(), "/notes.md", b"{SECRET}")
    script = [ToolCall("write_file", {{"file_path": "/a.md", "content": "{SECRET}" * 5000}}), "{SECRET}"]
    agent = create_deep_agent(ScriptedModel(script), checkpointer=store, interrupt_on={{"write_file": True}})
    turn = agent.run_sync("{SECRET}", "t")
    assert turn.status == "paused", turn
""")
    here = b"".join(path.read_bytes() for path in Path(tmp_path).iterdir() if path.is_file())
    assert b"SQLite" in here  # It is the folder that is looked at.
    assert SECRET.encode() not in here
    assert SECRET.encode()[:12] not in here
    with sealed(DiskCheckpointer(tmp_path), *keys) as store:
        script = ["so be it"]
        later = create_deep_agent(ScriptedModel(script), checkpointer=store, interrupt_on={"write_file": True})
        state = later.get_state("t")
        assert state.messages[0].text == SECRET
        turn = later.resume_sync("t", {one.call_id: Approve() for one in state.interrupts})
        assert (turn.status, turn.text, turn.saved) == ("ended", "so be it", True)
        assert later.read_file("t", "/a.md") == SECRET * 5000
        assert StoreBackend(store, ("n",)).read(tool_context(), "/notes.md") == SECRET.encode()
        assert store.verify() == []


def test_no_row_of_whole_runs_reaches_the_store_inside_unsealed():
    inner = MemoryCheckpointer(retention=Retention(boundaries=2))
    with sealed(inner) as store:
        call = ToolCall("speak", {"text": SECRET, "size": 9000})
        talker = agent(store, *[call, SECRET] * 9)
        for number in range(6):
            assert talker.run_sync(SECRET, "t", key=f"k{number}").saved
        talker.fork("t", thread_id="u")
        assert talker.run_sync(SECRET, "u").saved
        rows = plain(inner).rows()
        kinds = {key.split("/")[0] for key, _ in rows}
        assert kinds >= {"head", "log", "base", "blob", "ref", "use", "key"}
        assert [key for key, value in rows if not value.startswith(b"\xc1e1") or SECRET.encode() in value] == []
        assert store.verify() == []
        assert len(talker.transcript("u")) > 4
        for thread in ("t", "u"):
            talker.delete(thread)
    assert plain(inner).rows() == []


def test_a_row_is_35_bytes_larger_and_sealed_anew_each_time():
    cipher = AESGCM(KEY)
    inner = MemoryCheckpointer()
    with PlainStore(sealed(inner)) as store:
        store.append("t", None, b"head", {"a": b"value"})
    assert len(plain(inner).get("a")) == len(b"value") + 35
    assert len({cipher.seal("a", b"") for _ in range(100)}) == 100


def test_a_thread_that_was_idle_is_expired_over_a_sealed_store():
    inner = MemoryCheckpointer(retention=Retention(seconds=0.0001))
    with sealed(inner) as store:
        agent(store, "one").run_sync("go", "t")
        assert store.retention is inner.retention
        for later in (1e6, 1e7):  # It is marked, and then deleted.
            expire(open_store(store), time.time() + later)
    assert plain(inner).rows() == []


# ---- what is refused


def test_another_key_is_refused_in_one_line_that_names_the_row():
    inner = MemoryCheckpointer()
    agent(sealed(inner), "one").run_sync("go", "t")
    store = sealed(inner, OTHER)
    other = agent(store, "two")
    for use in (lambda: other.get_state("t"), other.threads, lambda: other.run_sync("go", "t"), store.verify):
        with pytest.raises(CheckpointError, match=r"^row 'head/t' was sealed with a key that the cipher does not have"):
            use()
    assert agent(sealed(inner), "two").run_sync("go", "t").saved  # The other one holds nothing.


def test_a_store_that_was_written_without_a_cipher_says_so_and_so_does_one_that_is_read_without():
    inner = MemoryCheckpointer()
    agent(inner, "one").run_sync("go", "t")
    uses = lambda one: one.get_state("t"), lambda one: one.threads(), lambda one: one.run_sync("go", "t")
    for use in uses:
        with pytest.raises(CheckpointError, match=r"^row 'head/t' is not encrypted: this store was written without"):
            use(agent(sealed(inner), "two"))
    agent(sealed(secret := MemoryCheckpointer()), "one").run_sync("go", "t")
    with pytest.raises(CorruptSegment, match=r"^thread 't' is encrypted; open its store with EncryptedCheckpointer$"):
        agent(secret, "two").get_state("t")
    assert [(info.status, "encrypted" in info.problem) for info in agent(secret).threads()] == [("damaged", True)]


@pytest.mark.parametrize("at", [3, 8, -1, -17], ids=["key", "nonce", "tag", "value"])
def test_a_row_in_which_one_bit_was_changed_is_refused_and_all_others_are_read(at, caplog):
    inner = MemoryCheckpointer()
    long = "go " * 1000  # Shorter turns may stand in one row.
    talker = agent(sealed(inner), "one", "two", "three")
    talker.run_sync(long, "t")
    talker.run_sync(long, "t")
    talker.run_sync(long, "u")
    key, value = segments(inner, "t")[-1]
    changed = bytearray(value)
    changed[at] ^= 1
    replaced(inner, key, bytes(changed))
    fresh = agent(sealed(inner))
    with pytest.raises(CheckpointError, match=r"log/t//"):
        fresh.get_state("t")
    assert [message.text for message in fresh.get_state("u").messages] == [long, "three"]
    assert len(fresh.threads()) == 2
    if at != 3:  # Without the key of a row it cannot be told whether it is damaged.
        assert [message.text for message in fresh.get_state("t", at=1).messages] == [long, "one"]
        assert "does not open: it was damaged or changed" in caplog.text
    (damage,) = sealed(inner).verify()
    assert (damage.thread, damage.key) == ("t", key)


def test_rows_that_were_swapped_are_refused():
    inner = MemoryCheckpointer()
    for thread in "tu":
        agent(sealed(inner), "one").run_sync("go", thread)
    heads = {thread: plain(inner).head(thread) for thread in "tu"}
    for thread, head in zip("ut", heads.values(), strict=True):
        replaced(inner, f"head/{thread}", head)
    for thread in "tu":
        with pytest.raises(CorruptSegment, match=f"^row 'head/{thread}' does not open: .* or is another row's$"):
            agent(sealed(inner)).get_state(thread)
    assert [info.status for info in agent(sealed(inner)).threads()] == ["damaged", "damaged"]


def test_a_row_that_was_replaced_by_one_without_encryption_is_refused():
    inner, other = MemoryCheckpointer(), MemoryCheckpointer()
    for store in (sealed(inner), other):
        agent(store, "one").run_sync("go", "t")
    (key, _), *_ = segments(inner, "t")
    replaced(inner, key, segments(other, "t")[0][1])
    with pytest.raises(CheckpointError, match=r"is not encrypted"):
        agent(sealed(inner)).get_state("t")


def test_a_blob_that_was_changed_is_named_by_verify():
    inner = MemoryCheckpointer()
    agent(sealed(inner), ToolCall("speak", {"text": SECRET, "size": 9000}), "one").run_sync("go", "t")
    (key,) = plain(inner).keys("blob/", "blob0")
    value = plain(inner).get(key)
    inner.plain._put(key, value[:-1] + bytes([value[-1] ^ 1]))
    found = sealed(inner).verify()
    assert {"does not open" in damage.problem for damage in found} == {True}
    assert ("t", key) in {(damage.thread, damage.key) for damage in found}
    with pytest.raises(CorruptSegment, match=r"'blob/.*does not open"):
        agent(sealed(inner)).get_state("t")


class Failing:
    """A cipher whose key service cannot be reached."""

    def seal(self, key, value):
        return value

    def open(self, key, sealed):
        raise OSError("no key service")


def test_a_cipher_that_fails_is_a_store_that_failed_and_no_damage():
    store = EncryptedCheckpointer(MemoryCheckpointer(), Failing())
    assert agent(store, "one").run_sync("go", "t").saved
    for use in (lambda: agent(store).get_state("t"), lambda: agent(store).threads(), store.verify):
        with pytest.raises(CheckpointError, match=r"^the store failed: OSError: no key service$"):
            use()


# ---- keys


def test_a_new_key_seals_and_old_ones_open():
    inner = MemoryCheckpointer()
    long = "go " * 1000
    agent(sealed(inner), "one").run_sync(long, "t")
    rotated = agent(sealed(inner, OTHER, KEY), "two")
    assert rotated.run_sync(long, "t").saved
    assert [message.text for message in rotated.get_state("t").messages] == [long, "one", long, "two"]
    assert AESGCM(OTHER).open("head/t", plain(inner).head("t")[3:])
    with pytest.raises(CheckpointError, match=r"was sealed with a key that the cipher does not have"):
        agent(sealed(inner, OTHER)).get_state("t")


@pytest.mark.parametrize("key", [b"", b"short", [], [KEY, b"short"]])
def test_a_key_of_another_length_is_refused_and_not_shown(key):
    with pytest.raises(ConfigError, match=r"^AESGCM: a key has 16, 24 or 32 bytes, not (0|5|none|32, 5);"):
        AESGCM(key)
    assert repr(AESGCM([KEY, OTHER])) == "AESGCM(2 keys)"


# ---- heads


def test_a_turn_makes_as_many_trips_as_without_encryption():
    def trips(store, inner):
        talker = agent(store, "one", "two")
        talker.run_sync("go", "t")
        before = inner.calls.copy()
        talker.run_sync("go", "t")
        return inner.calls - before

    inner, bare = InstrumentedStore(), InstrumentedStore()
    assert trips(sealed(inner), inner) == trips(bare, bare)


def test_a_head_that_another_process_sealed_is_found_and_another_head_is_a_conflict():
    inner = MemoryCheckpointer()
    one, two = plain(first := sealed(inner)), plain(second := sealed(inner))
    one.append("t", None, b"1", {"a": b"1"})
    two.append("t", b"1", b"2", {"a": b"2"})  # It has never read the head.
    two.append("t", b"2", b"1", {})
    one.append("t", b"1", b"3", {"a": b"3"})  # Which it remembers as it was sealed at first.
    before = plain(inner).rows()
    for expected in (b"1", b"2", None):
        for each in (one, two):
            with pytest.raises(ThreadConflict):
                each.append("t", expected, b"4", {"a": b"4"})
    with pytest.raises(ThreadConflict):
        one.append("t", b"3", b"4", {}, ["missing"])
    assert plain(inner).rows() == before
    assert (first.immediate, second.immediate) == (True, True)


def test_an_append_that_leaves_the_head_leaves_its_bytes():
    inner = MemoryCheckpointer()
    store = plain(kept := sealed(inner))
    store.append("t", None, b"1", {})
    before = plain(inner).head("t")
    store.append("t", b"1", b"1", {"a": b""})
    assert plain(inner).head("t") == before
    assert kept.inner is inner


def test_an_open_whose_head_does_not_open_leaves_the_thread_free():
    inner = MemoryCheckpointer()
    agent(sealed(inner), "one").run_sync("go", "t")
    with pytest.raises(CheckpointError):
        asyncio.run(sealed(inner, OTHER).open("t"))
    assert not asyncio.run(inner.held("t"))


# ---- whole runs


async def test_many_turns_at_once_with_large_results_over_a_store_that_suspends():
    store = sealed(DistantStore())
    call = ToolCall("speak", {"text": "long", "size": 100_000})
    agents = [agent(store, call, "one") for _ in range(10)]
    done = await asyncio.gather(*(each.run("go", f"t{number}") for number, each in enumerate(agents)))
    assert [(turn.text, turn.saved) for turn in done] == [("one", True)] * 10
    states = await asyncio.gather(*(agents[0].aget_state(f"t{number}") for number in range(10)))
    assert {state.messages[2].text for state in states} == {"long" * 100_000}
    await store.aclose()


KILLED = """
import os, signal, sys
from minideep import *
from minideep.models import ScriptedModel
from minideep.testing import tool_context
class Fatal(DiskCheckpointer):
    left = int(sys.argv[2])
    async def append(self, *args, **how):
        self.left -= 1
        if not self.left and sys.argv[3] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        await super().append(*args, **how)
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
@tool
def note(text: str) -> str:
    "Write down."
    with open(sys.argv[1] + ".done", "a") as file:
        file.write(text)
    return text
store = EncryptedCheckpointer(Fatal(sys.argv[1]), AESGCM(bytes(range(32))))
agent = Agent(ScriptedModel([ToolCall("note", {"text": "a"}), ToolCall("note", {"text": "b"}), "done"]), [note],
              checkpointer=store, durability="tool")
agent.run_sync("go", "t")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("append", [1, 2, 3, 4])
def test_a_process_killed_at_an_append_leaves_a_thread_that_another_goes_on_with(tmp_path, append, moment):
    state = tmp_path / "state"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(state), str(append), moment], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with sealed(DiskCheckpointer(state)) as store:
        assert store.verify() == []
        later = agent(store, "here again", "and on")
        if [info.thread_id for info in later.threads()]:
            assert later.get_state("t").messages[0].text == "go"
            assert later.resume_sync("t").saved
        assert later.run_sync("go on", "t").saved
        assert store.verify() == []


def test_a_backup_of_the_store_inside_is_sealed_and_opens_with_the_key(tmp_path):
    inner = DiskCheckpointer(tmp_path / "state")
    with sealed(inner) as store:
        agent(store, "one").run_sync("go", "t")
        inner.backup(tmp_path / "copy")
    with sealed(DiskCheckpointer(tmp_path / "copy")) as copy:
        assert copy.verify() == []
        assert agent(copy, "two").run_sync("go", "t").saved


def test_questions_to_running_turns_pass_through(tmp_path):
    inner = DiskCheckpointer(tmp_path)
    assert sealed(inner).exchange is inner.exchange
    assert sealed(MemoryCheckpointer()).exchange is None


def test_a_row_that_does_not_open_among_others_is_logged_and_no_decoder_takes_what_stands_for_it(caplog):
    inner = MemoryCheckpointer()
    with PlainStore(sealed(inner)) as store:
        store.append("t", None, b"1", {"a": b"1", "b": b"2"})
        inner.plain._put("a", plain(inner).get("b"))
        ((_, instead), other) = store.rows("a", "c")
    assert other == ("b", b"2")
    assert [record.getMessage() for record in caplog.records] == [
        "a row cannot be read: row 'a' does not open: it was damaged or changed, or is another row's"
    ]
    for read in (read_run_row, read_key_row, read_mark, read_file_row):
        with pytest.raises(CorruptSegment):
            read("a", instead)
    for read in (read_segment, read_snapshot, read_blob):
        with pytest.raises(CorruptSegment):
            read(instead, "a")
    with pytest.raises(CorruptSegment):
        read_head("t", instead)


def test_without_the_package_the_remedy_is_named_and_with_it_nothing_is_imported_before_it_is_used():
    assert python("""
import sys
sys.modules["cryptography.hazmat.primitives.ciphers"] = None
from minideep import AESGCM, ConfigError, Agent, DiskCheckpointer
try:
    AESGCM(bytes(32))
except ConfigError as exc:
    print(exc)
""").endswith("pip install 'minideep[encryption]'\n")
    assert python("""
import sys
from minideep import Agent, DiskCheckpointer
Agent("offline:", checkpointer=DiskCheckpointer("x"))
print([name for name in sys.modules if "encryption" in name or name.startswith("cryptography")])
from minideep import AESGCM
print([name for name in sys.modules if name.startswith("cryptography")])
""").splitlines() == ["[]", "[]"]
