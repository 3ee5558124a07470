"""What the rest of the package uses of the runtime, for type checkers."""

from .alone import LoneCall as LoneCall, LoneRun as LoneRun
from .delegation import messages_of_run as messages_of_run
from .feed import position as position
from .following import (
    ThreadStatus as ThreadStatus,
    cancel_turn as cancel_turn,
    follow as follow,
    say_to_turn as say_to_turn,
    status_of as status_of,
)
from .handle import Handle as Handle, start as start
from .jobs import Jobs as Jobs, job_id as job_id, thread_of_job as thread_of_job
from .live import turns_of as turns_of
from .options import with_options as with_options
from .overrides import override as override, with_model as with_model
from .process import configure_process as configure_process
from .spec import (
    build_spec as build_spec,
    check_prices as check_prices,
    inheritable as inheritable,
    inheriting as inheriting,
    overridden as overridden,
)
from .stream import Stream as Stream
from .sync import run_sync as run_sync
from .turns import (
    TurnConfig as TurnConfig,
    Turns as Turns,
    checked_thread_id as checked_thread_id,
)
from .updating import update as update
