"""The tasks of the behaviour set."""

from . import code, finding

TASKS = (*code.TASKS, *finding.TASKS)
"""All tasks, in the order of the table."""

__all__ = ["TASKS"]
