"""The names of the test kit, for type checkers."""

from ..models import forbid_requests as forbid_requests
from .backend import BackendContract as BackendContract
from .context import RecordingContext as RecordingContext, tool_context as tool_context
from .durable_store import DurableStoreContract as DurableStoreContract
from .model import ModelContract as ModelContract
from .recordings import Recorded as Recorded, recorded as recorded
from .shell import ShellContract as ShellContract
from .store import StoreContract as StoreContract

__all__: list[str]
