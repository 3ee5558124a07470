"""The tasks of the behaviour set."""

from . import code, finding, injections, people, planning

TASKS = (*code.TASKS, *finding.TASKS, *planning.TASKS, *people.TASKS, *injections.TASKS)
"""All tasks, in the order of the table."""

__all__ = ["TASKS"]
