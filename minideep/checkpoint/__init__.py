"""Threads on disk or in memory: what the rest of the package uses of it. Each name is loaded when it is first used."""

from collections.abc import Callable
from typing import Literal

from .. import lazy_names
from ..events import AnyEvent

Durability = Literal["turn", "step", "tool"]
"""When a turn is saved, besides at its two ends: not at all, before each question to a model, or after each result."""
Redact = Callable[[AnyEvent], AnyEvent]
"""Returns the event that is saved instead of the one that happened: of the same type and with the same ids."""

__getattr__ = lazy_names(
    __name__,
    {
        "accounts": "thread_costs",
        "batch": "Pending",
        "boundaries": "STATUS_AFTER Boundary recallable",
        "disk": "DiskCheckpointer",
        "encryption": "AESGCM Cipher EncryptedCheckpointer",
        "files": "MAX_NAMESPACE MAX_PLACE FileRow Seen StoredFiles namespace_name place",
        "format": "decode decode_recorded encode encode_state number_of",
        "holding": "HeldThread",
        "journal": "Journal open_thread",
        "layout": "after_a_gap head_key log_prefix read_head",
        "maintenance": "delete",
        "memory": "MemoryCheckpointer",
        "paging": "read_page thread_events",
        "past": "accepted_input past_turn",
        "rewriting": "fork",
        "spending": "CallCosts RunCosts Spending StepCosts ThreadCosts TurnCosts",
        "store": "CheckedStore finish_work lost_thread open_store unknown_thread",
        "adapter": "threaded",
        "sync_store": "SyncStore",
        "verify": "Damage",
        "waiting": "wait_for",
        "listing": "ThreadInfo threads",
        "views": "Difference RunInfo diff export get_state history noted read_file recall runs transcript",
    },
)
