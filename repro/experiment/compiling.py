"""``compile: true``, the layers and the losses of a training step by ``torch.compile``; and the layers of decoding."""

import os
from collections.abc import Callable
from functools import wraps
from shutil import which
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch._dynamo import config
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch.utils._python_dispatch import _get_current_dispatch_mode

from repro.errors import UserError
from repro.nn import (
    FullAttention,
    InfusedAttention,
    LinearAttention,
    LocalAttention,
    RelativeAttention,
    ResidualStack,
    ShawAttention,
    Vocabulary,
)

Backend = str | Callable[..., Any]

# Mixers that are traced whole: one graph for a stack of layers, without a break.
TRACED = (
    FullAttention, InfusedAttention, LinearAttention, LocalAttention, RelativeAttention, ShawAttention,
)  # fmt: skip
# Why others run eagerly; a class that is named nowhere was not tried.
EAGER = {
    "ReversibleStack": "its backward pass restores random states and calls autograd anew",
    "LSHAttention": "its backward pass is written in place, block by block of sorted tokens",
    "ContinuousMemory": "matrices of its regression are made on the host, for every length",
    "CompressedMemory": "how many tokens are pending decides which operations run",
    "CompressiveAttention": "how many tokens are pending decides which operations run",
    "NormedLSTM": "torch's LSTM is one operator already, which dynamo does not trace",
    "BidirectionalLSTM": "its rows are packed by lengths on the host",
}
ENDED = "_compiled_no_longer"  # attribute of a module: its methods that met too many shapes
LOSSES = ("_nll", "_score", "_padded_score", "log_probs")  # of one chunk each
COMPILERS = (os.environ.get("CXX", "g++"), "g++", "clang++")


def why_eager(task: nn.Module) -> str:
    """Why a network would not run as one graph for each stack of layers; empty where it would."""
    stacks = [module for module in task.modules() if isinstance(module, ResidualStack)]
    if not stacks:
        return "compile: this network has no stack of layers to compile; leave compile out"
    mixers = [layer["mix"].body for stack in stacks for layer in stack.each()]
    for module in (*stacks, *mixers):
        if type(module) not in (ResidualStack, *TRACED):
            name = type(module).__name__
            reason = EAGER.get(name, "it is not among the classes that were tried")
            return f"compile: {name} runs eagerly, since {reason}; leave compile out"
    return ""


def require_compilable(task: nn.Module) -> None:
    """Refuses a network that would not run as one graph for each stack of layers.

    Raises:
        ValueError: names the class that stays eager, and why.
    """
    if reason := why_eager(task):
        raise ValueError(reason)


def compile_training(task: nn.Module, backend: Backend = "inductor", fullgraph: bool = False) -> None:
    """Compiles, in place, what a training step spends its time on: stacks of layers, and losses over a vocabulary.

    Evaluation and decoding run eagerly, since their shapes change with every call. So do embeddings, adaptive
    vocabularies (the host waits for the sizes of their clusters) and mixtures. Weights keep their names.

    Args:
        task: passed by :func:`require_compilable`.
        backend: of ``torch.compile``.
        fullgraph: refuse a break of the graph.

    Raises:
        UserError: the machine has no C++ compiler for inductor.
    """
    _require_compiler(backend)
    config.fail_on_recompile_limit_hit = True  # else dynamo runs eagerly without a trace
    for module in task.modules():
        if isinstance(module, ResidualStack):
            _compile(module, "forward", backend, fullgraph)
        elif isinstance(module, Vocabulary):
            for method in LOSSES:
                _compile(module, method, backend, fullgraph)


def compile_decoding(task: nn.Module, backend: Backend = "inductor") -> None:
    """Compiles, in place, the stacks of layers of a network that only decodes from now on.

    Args:
        task: with the trained network.
        backend: of ``torch.compile``.

    Raises:
        UserError: a part of the network would run eagerly, or the machine has no C++ compiler for inductor.
    """
    if reason := why_eager(task):
        raise UserError(f"--{reason}")
    _require_compiler(backend)
    for module in task.modules():
        if isinstance(module, ResidualStack):
            module.compile(backend=backend)


def _require_compiler(backend: Backend) -> None:
    if backend == "inductor" and not any(map(which, COMPILERS)):
        raise UserError(
            "compile: no C++ compiler (g++, or what CXX names) is here; install one, or leave compile out"
        )


def _compile(module: nn.Module, method: str, backend: Backend, fullgraph: bool) -> None:
    """Puts a method that is compiled in training before that of the class.

    Beyond dynamo's limit of graphs the method runs eagerly for the rest of the training: :func:`eager_layers`.
    """
    eager = getattr(type(module), method)
    fast = torch.compile(eager, backend=backend, fullgraph=fullgraph)
    name = f"{type(module).__name__}.{method}"

    @wraps(eager)
    def run(self: nn.Module, *args: object, **kwargs: object) -> object:
        # Under a dispatch mode (operations are counted) dynamo would give a method up for good.
        learns = self.training and torch.is_grad_enabled() and _get_current_dispatch_mode() is None
        if not learns or name in getattr(self, ENDED, ()):
            return eager(self, *args, **kwargs)
        try:
            return fast(self, *args, **kwargs)
        except FailOnRecompileLimitHit:
            setattr(self, ENDED, {*getattr(self, ENDED, ()), name})
            return eager(self, *args, **kwargs)

    setattr(module, method, MethodType(run, module))  # bound: a deep copy of the module gets its own


def eager_layers(task: nn.Module) -> list[str]:
    """Deviations of a run whose compiled layers ran eagerly from some update on; empty where all stayed compiled."""
    ended = {name for module in task.modules() for name in getattr(module, ENDED, ())}
    return [f"compile: {name} met too many shapes and ended eagerly" for name in sorted(ended)]
