"""Behaviours: small tasks that show how a model works with a deep agent, and shapes that prove their checks."""

from .proof import Played, Proof
from .running import prove, run
from .shapes import Shape
from .task import Task
from .tasks import TASKS

__all__ = ["TASKS", "Played", "Proof", "Shape", "Task", "prove", "run"]
