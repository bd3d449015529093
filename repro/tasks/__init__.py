"""LightningModules: what a network is trained for, how it is scored, and the callbacks around that."""

from repro.tasks.schedules import Constant, Noam
from repro.tasks.task import Task
from repro.tasks.translation import Translation

__all__ = ["Constant", "Noam", "Task", "Translation"]
