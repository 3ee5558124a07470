"""Running a turn: it is begun or resumed, driven by the loop step by step, and saved.

Reading order: `turns` holds the thread and accepts the input, `loop` drives a run, `calls` answers one tool call,
`children` are runs below a call. `run` is what they all work on. `cancel` says whether a turn may go on.
"""

from .. import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "alone": "LoneCall LoneRun",
        "delegation": "messages_of_run",
        "feed": "position",
        "following": "ThreadStatus cancel_turn follow say_to_turn status_of",
        "handle": "Handle start",
        "jobs": "Jobs job_id thread_of_job",
        "live": "turns_of",
        "options": "with_options",
        "overrides": "override with_model",
        "process": "configure_process",
        "spec": "build_spec check_prices inheritable inheriting overridden",
        "stream": "Stream",
        "sync": "run_sync",
        "updating": "update",
        "turns": "TurnConfig Turns checked_thread_id",
    },
)
