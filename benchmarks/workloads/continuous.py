"""∞-former: an update of a continuous memory and its attention, forward and backward, beside the released modules.

Two forms with the constants of deep-spin/infinite-former, 512 basis functions each: that of `sorting` (batch 8, blocks
of 1,024 tokens, width 300, 6 heads) and that of `finetune_gpt2` (batch 1, blocks of 512, width 768, 12 heads). Two
changes are made while a module is read: the device is the CPU, and the attribute ``share_mask``, which one reads and
never sets, is False. `as released` keeps the anomaly detection that the module of `sorting` turns on. Both have the
same weights and must give the same outputs; for that, its regression matrices, which it inverts in float32, are
replaced by ours. The memories of `sticky` are drawn and not compared.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import Workload, official, size
from repro.nn.attention.continuous import ContinuousSignal
from repro.nn.attention.continuous.gaussian import divergence, draw_bins, histogram
from repro.nn.attention.continuous.long_term import LongTermMemory
from repro.nn.attention.continuous.regression import fit

NAMES = {
    "key": "proj_key", "value": "proj_value", "out": "attn_out", "gate": "mask_net", "mean": "mu", "spread": "sigma"
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """Sizes and settings of a released module, below ``folder`` of the checkout."""

    folder: str
    signal: ContinuousSignal
    d_model: int
    heads: int
    block: int
    batch: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def d_head(self) -> int:
        return self.d_model // self.heads


SORTING = Form(
    "sorting", ContinuousSignal.sorting(), 300, 6, size(1024), size(8), {"d_model": 300, "mu_0": None}
)
GPT2, STICKY = (
    Form(
        "finetune_gpt2/src/transformers/models/gpt2", ContinuousSignal.language_model(sticky=sticky),
        768, 12, size(512), 1,
        {"continuous": True, "affines": True, "mask_dropout": 0.0, "mu_0": -1.0, "sticky_memories": sticky},
    )
    for sticky in (False, True)
)  # fmt: skip


class Anything(ModuleType):
    """Stands in for a package that the released code imports and does not use here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return object


def released(form: Form) -> Any:
    """The released module on the CPU."""
    folder = official("infinite-former") / form.folder
    for name in ("entmax", "matplotlib", "matplotlib.pyplot"):
        sys.modules[name] = Anything(name)
    sys.path.insert(0, str(folder))
    source = (folder / "long_term_attention.py").read_text()
    module: Any = ModuleType("released")
    source = source.replace("'cuda'", "'cpu'").replace("from .", "from ")
    exec(compile(source, "long_term_attention.py", "exec"), vars(module))
    torch.autograd.set_detect_anomaly(False)
    module.LongTermAttention.share_mask = False
    torch.manual_seed(0)
    return module.LongTermAttention(
        head_size=form.d_head, length=form.block, target_len=form.block, attn_func="softmax",
        attn_num_basis=form.signal.basis, attn_drop=0.0, infinite_memory=True, n_layers=1, n_heads=form.heads,
        mask=True, mask_type="cnn", kl_regularizer=True, sigma_0=form.signal.kl_sigma, **form.settings,
    )  # fmt: skip


def same_weights(form: Form) -> tuple[LongTermMemory, Any]:
    """Ours, and the released module, with the same weights and matrices; None where it is not there."""
    ours = LongTermMemory(form.d_model, form.heads, form.d_head, form.signal)
    try:
        theirs = released(form)
    except ImportError:
        return ours, None
    given = theirs.state_dict()
    ours.load_state_dict(
        {k: given[k.replace(k.split(".")[0], NAMES[k.split(".")[0]], 1)] for k in ours.state_dict()}
    )
    matrices = fit(form.signal, form.block, torch.float32, torch.device("cpu"))
    theirs.G_inf = torch.cat([matrices.past, matrices.new])
    return ours, theirs


def step(form: Form, name: str, anomalies: bool = False) -> Callable[[], Tensor]:
    """One update and one attention, with the past given, and their gradients."""
    ours, theirs = same_weights(form)
    if name != "ours" and theirs is None:
        official("infinite-former")
    draw = torch.Generator().manual_seed(1)
    block, earlier = torch.randn(2, form.batch, form.block, form.d_model, generator=draw)
    query = torch.randn(form.batch, form.block, form.heads, form.d_head, generator=draw).requires_grad_()
    new, old = torch.ones(form.batch, dtype=torch.bool), torch.zeros(form.batch, dtype=torch.bool)
    past = ours.update(ours.empty(form.batch), earlier, new, None).detach()
    queries = form.heads * form.block
    mean, variance = torch.rand(2, form.batch, queries, generator=draw)
    variance = variance.square() / 100

    def bins() -> Tensor | None:
        if form.signal.bins is None:
            return None
        mass = histogram(mean, variance, torch.ones_like(mean, dtype=torch.bool), form.signal.bins)
        return draw_bins(mass, torch.zeros(form.batch), form.signal.samples, torch.tensor(1))

    def mine() -> tuple[Tensor, Tensor]:
        read = ours(ours.update(past, block, old, bins()), query)
        return read.y, divergence(read.mean, read.variance, form.signal.kl_sigma, form.signal.kl_mean)

    def sorting() -> tuple[Tensor, Tensor]:
        theirs.B_past = past
        y, kl = theirs(block.transpose(0, 1), query.transpose(0, 1).flatten(2))
        return y.transpose(0, 1), kl

    def gpt2() -> tuple[Tensor, Tensor]:
        theirs.B_past, theirs.count, theirs.attn_past = past, 0, [mean, variance.sqrt()]
        y, kl = theirs(block, query.transpose(1, 2))
        return y, kl

    other = sorting if form is SORTING else gpt2

    def run() -> Tensor:
        with torch.autograd.set_detect_anomaly(anomalies):
            y, kl = mine() if name == "ours" else other()
            (y.square().mean() + kl.mean()).backward()
        return y

    return run


def workload(name: str, form: Form, **settings: Any) -> Workload:
    """A form beside its released module."""
    sides: dict[str, Callable[[], Any]] = {side: partial(step, form, side) for side in ("ours", "official")}
    if form is SORTING:
        sides["official, as released"] = partial(step, form, "official", True)
    return Workload(f"∞-former{name}, update and attention", sides, **settings)


WORKLOADS = [
    workload("", SORTING, turns=5),
    workload(" in GPT-2", GPT2),
    workload(" in GPT-2, sticky", STICKY, tolerance=None),
]
