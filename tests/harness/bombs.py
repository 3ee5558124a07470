"""Rows that are small and decode to far more memory than they have bytes."""

import hashlib
import resource
import sys
from array import array
from pathlib import Path

import msgspec
import zstandard

from harness.damage import store_of
from harness.stores import plain
from minideep import (
    Agent,
    MemoryCheckpointer,
    MinideepError,
)
from minideep.checkpoint import format as codec
from minideep.models import ScriptedModel

MANY = 17 * 2**20 - 400


def bombs():
    """Return a list of empty lists, a map of empty maps, and a list of a million, in this order."""
    return [
        b"\xdd" + MANY.to_bytes(4) + b"\x90" * MANY,
        b"\xdf" + (MANY // 6).to_bytes(4) + maps(MANY // 6),
        b"\xdd" + (2**20 - 50).to_bytes(4) + b"\x90" * (2**20 - 50),
    ]


def maps(count):
    """Return *count* entries of a map: each a number of four bytes, and an empty map."""
    numbers = array("I", range(count))
    if sys.byteorder == "little":
        numbers.byteswap()
    entries = bytearray(b"\xce----\x80" * count)
    for place in range(4):
        entries[place + 1 :: 6] = numbers.tobytes()[place::4]
    return bytes(entries)


NOTED = b"\x95\x12\xa1a\xa1b%s\xa7replace"


def bomb(about, value, place):
    """A segment whose event, blob, list of events or header is *value*, and the blob."""
    event = NOTED.replace(b"%s", value)[: codec.MAX_RAW - 20]
    name = hashlib.sha256(event).hexdigest()
    body = {
        "event": b"\x91\x92\x05" + event,
        "blob": msgspec.msgpack.encode([[5, [0, name]]]),
        "events": value[: codec.MAX_RAW],
        "header": b"\x90",
    }[place]
    packed = msgspec.msgpack.encode(msgspec.structs.replace(about, first=5, last=5, bytes_raw=len(body)))
    packed = packed[:1] + value + packed[2:] if place == "header" else packed
    return codec.frame(codec.SEGMENT, packed, zstandard.compress(body)), {f"blob/{name}": codec.seal_blob(event)}


def read_bombs(megabytes):
    """Read threads whose rows decode to far more than they have bytes, in so much more memory than that takes now."""
    store = MemoryCheckpointer()
    Agent(ScriptedModel(["ok"]), checkpointer=store).run_sync("hello", "t")
    rows = dict(plain(store).rows("", "\x7f"))
    key = max(key for key in rows if key.startswith("log/"))
    places, about = ("event", "blob", "events", "header"), codec.read_header(rows[key], key)
    rigged = [bomb(about, value, place) for value in bombs() for place in places]
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + megabytes * 2**20,) * 2)
    for data, blob in rigged:
        try:
            Agent(ScriptedModel(["ok"]), checkpointer=store_of({**rows, **blob, key: data})).get_state("t")
        except MinideepError as exc:
            print(type(exc).__name__)
        else:
            print("read")
