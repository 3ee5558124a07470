"""Behaviours: small tasks that show how a model works with a deep agent, and shapes that prove their checks."""

from .running import Played, Proof, prove, run
from .shapes import Shape
from .task import Task
from .tasks import TASKS

__all__ = ["TASKS", "Played", "Proof", "Shape", "Task", "prove", "run"]
