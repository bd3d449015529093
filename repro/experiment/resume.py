"""Finds the newest valid checkpoint, from which an interrupted run resumes."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from repro.training.checkpoints import checkpoint_path, checkpoints, fault, read, step_of
from repro.training.saving import StepCheckpoints, best_path


@dataclass
class Resume:
    """The place where a run resumes.

    Attributes:
        path: the checkpoint; None to begin anew.
        step: its step; 0 to begin anew.
        damaged: unusable files, each with the reason.
        later: sound checkpoints that come after it and are made again.
    """

    path: Path | None = None
    step: int = 0
    damaged: dict[Path, str] = field(default_factory=dict)
    later: list[Path] = field(default_factory=list)


def find(saver: StepCheckpoints, max_steps: int, early: bool = False) -> Resume:
    """The newest valid checkpoint from which the final model can still be made: an average, or the best so far.

    Nothing is changed.

    Args:
        saver: has the folder, and which checkpoints are averaged in the end.
        max_steps: of the whole run.
        early: whether the run may end before, at the newest checkpoint or at any step behind it.
    """
    resume = Resume()

    @cache
    def sound(path: Path) -> bool:
        wrong = fault(path)
        if wrong is not None and path.exists():
            resume.damaged[path] = wrong
        return wrong is None

    files = checkpoints(saver.folder)
    for path in reversed(files):
        if not sound(path):
            continue
        step = step_of(path)
        earliest = step if path == files[-1] else step + 1
        averaged = saver.plan.averaged(earliest if early else max_steps)
        needed = [checkpoint_path(saver.folder, s) for s in averaged if s < step]
        if saver.plan.best is not None and (best := saver.best_in(read(path, mmap=True))) is not None:
            needed.append(best_path(saver.folder, best[0]))
        if all(sound(p) for p in needed):
            resume.path, resume.step = path, step
            break
        resume.later.append(path)
    return resume
