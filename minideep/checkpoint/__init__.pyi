"""The names of the checkpoint package, for type checkers."""

from collections.abc import Callable
from typing import Literal

from ..events import AnyEvent
from .accounts import thread_costs as thread_costs
from .adapter import threaded as threaded
from .batch import Pending as Pending
from .boundaries import STATUS_AFTER as STATUS_AFTER, Boundary as Boundary, recallable as recallable
from .disk import DiskCheckpointer as DiskCheckpointer
from .encryption import AESGCM as AESGCM, Cipher as Cipher, EncryptedCheckpointer as EncryptedCheckpointer
from .files import (
    MAX_NAMESPACE as MAX_NAMESPACE,
    MAX_PLACE as MAX_PLACE,
    FileRow as FileRow,
    Seen as Seen,
    StoredFiles as StoredFiles,
    namespace_name as namespace_name,
    place as place,
)
from .format import (
    decode as decode,
    decode_recorded as decode_recorded,
    encode as encode,
    encode_state as encode_state,
    number_of as number_of,
)
from .holding import HeldThread as HeldThread
from .journal import Journal as Journal, open_thread as open_thread
from .layout import after_a_gap as after_a_gap, head_key as head_key, log_prefix as log_prefix, read_head as read_head
from .listing import ThreadInfo as ThreadInfo, threads as threads
from .maintenance import delete as delete
from .memory import MemoryCheckpointer as MemoryCheckpointer
from .paging import read_page as read_page, thread_events as thread_events
from .past import accepted_input as accepted_input, past_turn as past_turn
from .rewriting import fork as fork
from .spending import (
    CallCosts as CallCosts,
    RunCosts as RunCosts,
    Spending as Spending,
    StepCosts as StepCosts,
    ThreadCosts as ThreadCosts,
    TurnCosts as TurnCosts,
)
from .store import (
    CheckedStore as CheckedStore,
    finish_work as finish_work,
    lost_thread as lost_thread,
    open_store as open_store,
    unknown_thread as unknown_thread,
)
from .sync_store import SyncStore as SyncStore
from .verify import Damage as Damage
from .views import (
    Difference as Difference,
    RunInfo as RunInfo,
    diff as diff,
    export as export,
    get_state as get_state,
    history as history,
    noted as noted,
    read_file as read_file,
    recall as recall,
    runs as runs,
    transcript as transcript,
)
from .waiting import wait_for as wait_for

Durability = Literal["turn", "step", "tool"]
Redact = Callable[[AnyEvent], AnyEvent]
