"""The names of the checkpoint package, for type checkers."""

from collections.abc import Callable
from typing import Literal

from ..events import AnyEvent
from .batch import Pending as Pending
from .boundaries import Boundary as Boundary
from .disk import DiskCheckpointer as DiskCheckpointer
from .format import (
    decode as decode,
    decode_numbered as decode_numbered,
    encode as encode,
    encode_state as encode_state,
    number_of as number_of,
)
from .holding import hold_thread as hold_thread
from .journal import Journal as Journal, open_thread as open_thread
from .layout import lock_name as lock_name, log_prefix as log_prefix, read_head as read_head
from .maintenance import delete as delete
from .memory import MemoryCheckpointer as MemoryCheckpointer
from .paging import read_page as read_page
from .rewriting import fork as fork
from .store import (
    CheckedStore as CheckedStore,
    exists as exists,
    off_loop as off_loop,
    open_store as open_store,
    unknown_thread as unknown_thread,
)
from .verify import Damage as Damage
from .views import (
    Difference as Difference,
    RunInfo as RunInfo,
    ThreadInfo as ThreadInfo,
    diff as diff,
    export as export,
    get_state as get_state,
    history as history,
    noted as noted,
    read_file as read_file,
    recall as recall,
    runs as runs,
    threads as threads,
    transcript as transcript,
)

Durability = Literal["turn", "step", "tool"]
Redact = Callable[[AnyEvent], AnyEvent]
