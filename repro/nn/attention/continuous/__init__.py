"""Attention over a past of any length, written as a continuous signal."""

from repro.nn.attention.continuous.memory import ContinuousMemory
from repro.nn.attention.continuous.signal import ContinuousSignal

__all__ = ["ContinuousMemory", "ContinuousSignal"]
