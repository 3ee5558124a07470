"""The tasks of the behaviour set."""

from . import code, finding, injected_answers, injected_files, people, planning

TASKS = (
    *code.TASKS,
    *finding.TASKS,
    *planning.TASKS,
    *people.TASKS,
    *injected_answers.TASKS,
    *injected_files.TASKS,
)
"""All tasks, in the order of the table."""

__all__ = ["TASKS"]
