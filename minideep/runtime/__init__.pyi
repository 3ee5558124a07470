"""What the rest of the package uses of the runtime, for type checkers."""

from .process import configure_process as configure_process
from .spec import (
    build_spec as build_spec,
    check_prices as check_prices,
    inheritable as inheritable,
    inheriting as inheriting,
)
from .stream import Stream as Stream
from .sync import run_sync as run_sync
from .turns import (
    TurnConfig as TurnConfig,
    Turns as Turns,
    checked_thread_id as checked_thread_id,
)
