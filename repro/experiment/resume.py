"""Where an interrupted run goes on: at its newest sound checkpoint."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from repro.checkpoints import checkpoint_path, checkpoints, fault, step_of
from repro.training.saving import StepCheckpoints


@dataclass
class Resume:
    """Where a run goes on.

    Attributes:
        path: the checkpoint; None to begin anew.
        step: its step; 0 to begin anew.
        damaged: files that cannot be used, and why.
        later: sound checkpoints that come after it and are made again.
    """

    path: Path | None = None
    step: int = 0
    damaged: dict[Path, str] = field(default_factory=dict)
    later: list[Path] = field(default_factory=list)

    @property
    def unusable(self) -> list[Path]:
        """What must not be found again."""
        return [*self.damaged, *self.later]


def find(saver: StepCheckpoints, max_steps: int) -> Resume:
    """The newest checkpoint that is sound, and from which the final average can still be made.

    Every rank looks for itself, before ranks have met, and comes to the same answer; nothing is changed.

    Args:
        saver: knows the folder and which checkpoints are averaged in the end.
        max_steps: of the whole run.
    """
    found = Resume()

    @cache
    def sound(path: Path) -> bool:
        wrong = fault(path)
        if wrong is not None and path.exists():
            found.damaged[path] = wrong
        return wrong is None

    for path in reversed(checkpoints(saver.folder)):
        if not sound(path):
            continue
        step = step_of(path)
        before = [checkpoint_path(saver.folder, s) for s in saver.plan.averaged(max_steps) if s < step]
        if all(sound(p) for p in before):
            found.path, found.step = path, step
            break
        found.later.append(path)
    return found
