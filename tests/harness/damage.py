"""Damages stores, one row or two at a time, and asks each of them everything that an agent can be asked."""

import asyncio
import random
import zlib

import msgspec
import zstandard

from harness.histories import agent_on, cut, resumed
from harness.stores import plain
from minideep import Agent, Approve, MemoryCheckpointer, MinideepError
from minideep.checkpoint import format as codec, layout as names
from minideep.models import ScriptedModel
from minideep.runtime.sync import run_sync

KINDS = ["head", "run", "log", "base", "use", "ref", "blob"]
INVALID = "\uf8ff invalid \uf8ff"
"""Becomes invalid UTF-8 once it is encoded."""
DEEP = b"\x91" * 2000 + b"\x90"


def rich_rows():
    """Return the rows of a store with two threads: cut, compacted, forked, with files, subagents and pending calls."""
    store = MemoryCheckpointer()
    agent = agent_on(store)
    for name in ("plain", "files", "compact", "large", "task", "forgetful", "todos", "compact", "large"):
        turn = agent.run_sync(name, "t")
        if turn.status == "paused":
            resumed(agent, "t", {wait.call_id: Approve() for wait in turn.interrupts})
    store.close()
    cut(store, 6)
    agent.run_sync("payer", "t")
    agent.fork("t", thread_id="u")
    store.close()
    rows = dict(plain(store).rows("", "\x7f"))
    assert {key.partition("/")[0] for key in rows} == set(KINDS)
    return rows


def store_of(rows):
    store = MemoryCheckpointer()
    for key, data in rows.items():
        store.plain._put(key, data)
    return store


# ---- damage


def unreadable(value):
    """Return *value* as MessagePack, with invalid UTF-8 in place of INVALID."""
    return msgspec.msgpack.encode(value).replace("\uf8ff".encode(), b"\xff\xfe\xfd")


def strange(chance):
    return chance.choice(
        [None, True, -1, 0, 2, 2**63, 2**64 - 1, -(2**63), 0.5, float("nan"), float("inf"), "", INVALID, "x" * 3000,
         b"", b"\xff" * 40, b"no json", b"[" * 5000, [], [[]], {}, {INVALID: 1}, {"a": {"b": []}}, [None] * 40,
         msgspec.msgpack.Ext(5, b"x"), "t", "paused", 19, 99]
    )  # fmt: skip


def changed(value, chance):
    """Return *value* with one place in it changed, at any depth."""
    if isinstance(value, list | dict) and value and chance.random() < 0.85:
        keys = list(range(len(value)) if isinstance(value, list) else value)
        key = chance.choice(keys)
        copy = list(value) if isinstance(value, list) else dict(value)
        match chance.randrange(12):
            case 0:
                del copy[key]
            case 1 if isinstance(copy, list):
                copy.insert(key, strange(chance))
            case 2 if isinstance(copy, list):
                copy[key:] = [*copy[key:], copy[key]]
            case _:
                copy[key] = changed(value[key], chance)
        return copy
    if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.5:
        return value + chance.choice([-1, 1, 2, -value, 1000])
    return strange(chance)


def forged(data, chance):
    """Return a row of the same kind with a correct checksum and other content."""
    if data[:3] not in (codec.SEGMENT, codec.SNAPSHOT, codec.BLOB):
        return unreadable(changed(msgspec.msgpack.decode(data), chance)) if data else b"\x90"
    if data[:3] == codec.BLOB:
        return data[:5] + zstandard.compress(unreadable(strange(chance)))
    length = int.from_bytes(data[9:13])
    header, body = msgspec.msgpack.decode(data[13 : 13 + length]), zstandard.decompress(data[13 + length :])
    if chance.random() < 0.3:
        header = changed(header, chance)
    else:
        body = unreadable(changed(msgspec.msgpack.decode(body), chance))
        body = body.replace(b"\xc4\x07no json", DEEP) if chance.random() < 0.1 else body
        header[6] = len(body)
    packed, body = unreadable(header), zstandard.compress(body)
    size = len(packed).to_bytes(4)
    return data[:5] + zlib.crc32(size + packed + body).to_bytes(4) + size + packed + body


def damaged(rows, chance):
    """Return the rows with one of them damaged, or with a foreign one."""
    rows = dict(rows)
    kind = chance.choice(KINDS)
    key = chance.choice([key for key in rows if key.startswith(f"{kind}/")])
    data, place = rows[key], chance.randrange(len(rows[key]) or 1)
    match chance.randrange(10):
        case 0:
            rows[key] = (
                data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :] if data else b"x"
            )
        case 1:
            rows[key] = data[:place]
        case 2:
            rows[key] = data[:place] + chance.randbytes(chance.randrange(40)) + data[place + chance.randrange(40) :]
        case 3:
            del rows[key]
        case 4:
            rows[chance.choice(list(rows))] = data
        case 5:
            place = chance.randrange(len(key) + 1)
            strange_key = chance.choice(["/", "%", "%zz", "x", "-1", "٣", "\ufffd", ",", ""])
            rows[key[:place] + strange_key + key[place + chance.randrange(4) :]] = data
        case _:
            rows[key] = forged(data, chance) if data == ROWS.get(key) else b"\x93\x01"
    return rows


# ---- questions


def ask(verb, *args, **kwargs):
    """Return the answer, or None for an error of minideep. Any other error passes and fails the campaign."""
    try:
        found = verb(*args, **kwargs)
        return run_sync(found) if asyncio.iscoroutine(found) else found
    except MinideepError:
        return None


def ask_everything(store):
    def agent():
        return Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)

    reader = agent()
    listed = ask(reader.threads)
    assert listed is not None
    assert {key[5:] for key in plain(store).keys("head/", "head0")} <= {
        names.head_key(one.thread_id)[5:] for one in listed
    } | {one.problem.partition("'head/")[2].partition("'")[0] for one in listed}
    for thread in ("t", "u"):
        ask(reader.get_state, thread, subagents=True)
        for boundary in [*(ask(reader.history, thread) or []), None][-3:]:
            ask(reader.get_state, thread, at=boundary.at if boundary else 99, subagents=True)
        for run in ask(reader.runs, thread) or []:
            ask(reader.transcript, thread, run.call_id)
            ask(reader.history, thread, run.call_id)
        ask(reader.transcript, thread)
        ask(reader.diff, thread, 6, 9)
        ask(reader.read_file, thread, "/large")
        ask(reader.read_file, thread, "/a", at=7)
        ask(reader.export, thread)
        ask(reader.fork, thread, thread_id="f")
        ask(reader.fork, thread, at=8)
        ask(agent().save, thread)
        state = ask(reader.get_state, thread)
        ask(agent().resume, thread, {wait.call_id: Approve() for wait in state.interrupts} if state else None)
        ask(agent().run, "go on", thread)
        store.close()
        ask(reader.get_state, thread, subagents=True)
        ask(reader.delete, thread)


ROWS = rich_rows()


def look(seed):
    """Damage the store number *seed* and ask it everything; every fourth is damaged twice."""
    chance = random.Random(seed)
    rows = damaged(ROWS, chance)
    store = store_of(damaged(rows, chance) if seed % 4 == 0 else rows)
    try:
        assert all(one.problem for one in store.verify())
        ask_everything(store)
    except Exception as exc:
        exc.add_note(f"look({seed})")
        raise


def campaign(stores: int, seed: int) -> None:
    """Look at *stores* damaged stores from the number *seed* on. An error that is not of minideep names its number."""
    for number in range(seed, seed + stores):
        look(number)
