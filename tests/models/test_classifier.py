"""Classifiers: which tokens are read, and that what is frozen stays as it is, to the bit."""

from functools import partial
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import Tensor, nn

from repro.data import BitXorData
from repro.models import Bert, Body, Classifier, Gpt2, Recurrent, VisionTransformer
from repro.models.classifier import groups
from repro.nn import (
    Blocks,
    Concatenated,
    FeedForward,
    FullAttention,
    LayerPositions,
    NoPositions,
    PerceptronEmbedding,
    PreNorm,
    ReversibleStack,
    TokenEmbedding,
    VectorEmbedding,
    WeightedPostNorm,
)
from repro.tasks import Classification, Constant
from tests.nn.mixers import difference

D = 8
BODIES = {
    "gpt2": lambda: Gpt2(D, 2, 2, 16),
    "vit": lambda: VisionTransformer(D, 2, 2, 16),
    "bert": lambda: Bert(D, 2, 2, 16),
    "lstm": lambda: Recurrent(D, 2),
    "lstm with shortcuts": lambda: Recurrent(D, 2, residual=True, max_length=16),
}
TRANSFORMERS = ["gpt2", "vit", "bert"]
ALL = ["input", "output", "positions", "norms", "attention", "last_attention", "feed_forward"]


class Same(Body):
    """A body that changes nothing, so that it shows which tokens are read."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.d_model = self.d_out = 1
        self.positions = NoPositions(1)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, last: int | None = None, settings: object = None
    ) -> Tensor:
        return x if last is None else x[:, -last:]


def classifier(name: str = "gpt2", trained: list[Any] | None = None, **settings: Any) -> Classifier:
    torch.manual_seed(0)
    vectors = partial(VectorEmbedding, size=1)
    return Classifier(vectors, BODIES[name](), 2, **({"n_read": 5} | settings), trained=trained)


def test_two_streams_are_read_side_by_side() -> None:
    blocks = Blocks(
        [partial(FullAttention, n_heads=2)], partial(FeedForward, d_ff=16), PreNorm, stack=ReversibleStack
    )
    net = Classifier(partial(VectorEmbedding, size=1), Body(D, 2, blocks), 3)
    assert net.head.proj.in_features == 2 * D
    assert net(torch.zeros(4, 5, 1)).shape == (4, 1, 3)


def reading(n_read: int, per_token: int, n_classes: int = 3) -> Classifier:
    """Logit ``j`` of a token that holds the number ``v`` is ``100 j + v``."""
    torch.manual_seed(0)
    net = Classifier(lambda d: nn.Identity(), Same(), n_classes, n_read, per_token)
    nn.init.ones_(net.head.proj.weight)
    net.head.proj.bias.data = 100.0 * torch.arange(per_token * n_classes)
    return net


@torch.no_grad()
def test_the_last_tokens_are_read() -> None:
    x = torch.arange(14.0).view(2, 7, 1)
    logits = reading(n_read=3, per_token=2)(x)
    assert logits.shape == (2, 6, 3)
    for row in range(2):
        for token in range(3):
            for target in range(2):
                value = 7 * row + 4 + token
                expected = [100.0 * (3 * target + label) + value for label in range(3)]
                assert logits[row, 2 * token + target].tolist() == expected
    assert reading(1, 1)(x)[:, 0, 0].tolist() == [6.0, 13.0]


@torch.no_grad()
def test_of_padded_rows_the_last_valid_tokens_are_read() -> None:
    x = torch.arange(21.0).view(3, 7, 1)
    logits = reading(n_read=2, per_token=1)(x, torch.tensor([7, 2, 4]))
    assert logits[..., 0].tolist() == [[5.0, 6.0], [7.0, 8.0], [16.0, 17.0]]
    assert torch.equal(reading(2, 1)(x, torch.tensor([7, 7, 7])), reading(2, 1)(x))


@pytest.mark.parametrize("name", BODIES)
@torch.no_grad()
def test_a_padded_row_scores_as_it_does_alone(name: str) -> None:
    torch.manual_seed(1)
    net = classifier(name, n_read=2).double().eval()
    x = torch.randn(3, 9, 1, dtype=torch.float64)
    lengths = torch.tensor([9, 2, 6])
    together = net(x, lengths)
    for row, n in enumerate(lengths.tolist()):
        assert difference(together[row], net(x[row : row + 1, :n])[0]) < 1e-12


@pytest.mark.parametrize("name", BODIES)
@torch.no_grad()
def test_what_is_not_read_need_not_be_computed(name: str) -> None:
    net = classifier(name, n_read=2).double().eval()
    x = torch.randn(3, 9, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole = net.head.logits(net.body(net.input(x))[:, -2:])
    assert difference(net(x), whole) < 1e-12


def test_ids_go_in_as_well() -> None:
    torch.manual_seed(0)
    net = Classifier(partial(TokenEmbedding, size=15), Gpt2(D, 1, 2, 16), n_classes=10)
    assert net(torch.randint(15, (4, 12))).shape == (4, 1, 10)
    assert net.n_targets == 1
    assert classifier(per_token=3).n_targets == 15


def names(net: Classifier, group: str) -> set[str]:
    inside = {id(p) for module in groups(net)[group] for p in module.parameters()}
    return {name for name, p in net.named_parameters() if id(p) in inside}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_groups_share_nothing_and_leave_nothing_out(name: str) -> None:
    net = classifier(name)
    assert sorted(groups(net)) == sorted(ALL)
    parts = {group: names(net, group) for group in ALL}
    assert parts["last_attention"] < parts["attention"]
    assert all("stack.layers.1.mix" in one for one in parts.pop("last_attention"))
    assert sum(map(len, parts.values())) == len(set.union(*parts.values())), "none is in two"
    assert set.union(*parts.values()) == {one for one, _ in net.named_parameters()}


def test_positions_of_layers_and_weights_of_shortcuts_are_in_a_group() -> None:
    blocks = Blocks(
        [partial(FullAttention, n_heads=2)],
        partial(FeedForward, d_ff=8),
        sublayer=WeightedPostNorm,
        positions=partial(LayerPositions, max_length=9),
    )
    net = Classifier(partial(VectorEmbedding, size=1), Body(D, 1, blocks), 2)
    assert set.union(*(names(net, group) for group in groups(net))) == {
        one for one, _ in net.named_parameters()
    }


def test_positions_beside_the_input_make_it_narrower() -> None:
    blocks = Blocks([partial(FullAttention, n_heads=2)], partial(FeedForward, d_ff=8))
    body = Body(D, 1, blocks, partial(Concatenated, width=2))
    assert Classifier(partial(VectorEmbedding, size=3), body, 2)(torch.randn(2, 5, 3)).shape == (2, 1, 2)


def test_what_is_in_a_group() -> None:
    net = classifier("bert")
    assert names(net, "input") == {"input.proj.weight", "input.proj.bias"}
    assert names(net, "output") == {"head.proj.weight", "head.proj.bias"}
    assert names(net, "positions") == {"body.positions.table.table.weight"}
    mixed = {f"body.stack.layers.{i}.mix" for i in range(2)}
    wide = {f"body.stack.layers.{i}.feed_forward" for i in range(2)}
    ends = ("weight", "bias")
    norms = {f"{layer}.norm_out.{end}" for layer in mixed | wide for end in ends}
    assert names(net, "norms") == norms | {f"body.norm.{end}" for end in ends}
    assert names(net, "attention") == {
        f"{layer}.body.{part}.{end}" for layer in mixed for part in ("qkv", "out") for end in ends
    }
    assert names(net, "feed_forward") == {
        f"{layer}.body.{part}.{end}" for layer in wide for part in ("inner", "outer") for end in ends
    }


@pytest.mark.parametrize(("name", "more"), [("lstm", []), ("lstm with shortcuts", ["positions"])])
def test_groups_of_a_recurrent_body(name: str, more: list[str]) -> None:
    net = classifier(name)
    assert sorted(groups(net)) == sorted(["input", "output", "norms", *more])
    assert len(names(net, "norms")) == 2 * 2 * 3
    inside = set.union(*(names(net, group) for group in groups(net)))
    rest = {one for one, _ in net.named_parameters()} - inside
    assert rest == {n for n, _ in net.named_parameters() if ".from_input." in n or ".from_state." in n}


CHOICES: list[list[str] | None] = [
    ["input", "output", "norms", "positions"], ["output"], ["output", "last_attention"],
    ["attention", "feed_forward"], [], None,
]  # fmt: skip


@pytest.mark.parametrize("chosen", CHOICES, ids=str)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_exactly_the_named_groups_are_trained(name: str, chosen: list[str] | None) -> None:
    net = classifier(name, chosen)
    expected = set().union(*(names(net, group) for group in (ALL if chosen is None else chosen)))
    assert {n for n, p in net.named_parameters() if p.requires_grad} == expected


@pytest.mark.parametrize(
    ("name", "chosen", "message"),
    [
        ("gpt2", ["output", "norm"], "'norm' is not a group.*it has input, output, norms, positions, attention, feed_"),
        ("gpt2", ["output", "input", "output"], "'output' is not a group of this network, or is repeated"),
        ("lstm", ["output", "positions"], "'positions' is not a group.*it has input, output, norms$"),
        ("lstm", ["attention"], "'attention' is not a group"),
    ],
)  # fmt: skip
def test_another_group_is_refused(name: str, chosen: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classifier(name, chosen)


@pytest.mark.parametrize("chosen", [["input"], ["output"], ["input", "output", "norms"], None], ids=str)
def test_layers_before_and_behind_the_body_belong_to_its_ends(chosen: list[str] | None) -> None:
    torch.manual_seed(0)
    vectors = partial(PerceptronEmbedding, size=3, hidden=[5, 6])
    net = Classifier(vectors, BODIES["gpt2"](), 2, trained=chosen, output_layers=[7, 4, 9])  # type: ignore[arg-type]
    both = ("weight", "bias")
    inner = {f"input.hidden.{i}.{end}" for i in (0, 3) for end in both}
    assert names(net, "input") == inner | {f"input.last.proj.{end}" for end in both}
    outer = {f"head.hidden.{i}.{end}" for i in (0, 3, 6) for end in both}
    assert names(net, "output") == outer | {f"head.proj.{end}" for end in both}
    expected = set().union(*(names(net, group) for group in chosen or ALL))
    assert {n for n, p in net.named_parameters() if p.requires_grad} == expected
    net.eval()
    x = torch.randn(4, 9, 3)
    hidden = net.body(net.input(x))[:, -1:]
    for linear in (net.head.hidden[0], net.head.hidden[3], net.head.hidden[6]):
        hidden = linear(hidden).clamp(min=0.0)
    assert difference(net(x), net.head.proj(hidden)) < 1e-6
    assert [m.p for m in net.head.hidden if isinstance(m, nn.Dropout)] == [0.1] * 3


def test_the_published_numbers_of_trained_parameters() -> None:
    with torch.device("meta"):
        net = Classifier(
            partial(VectorEmbedding, size=48), Gpt2(), 10, trained=["input", "output", "norms", "positions"]
        )
    result = {group: sum(p.numel() for m in groups(net)[group] for p in m.parameters()) for group in ALL}
    assert result["output"] == 768 * 10 + 10
    assert result["input"] == 48 * 768 + 768 == 37_632
    assert result["norms"] == 4 * 768 * 12 + 2 * 768 == 38_400
    assert result["positions"] == 1024 * 768
    # of the positions only the 64 that a picture has get a gradient
    trained = sum(p.numel() for p in net.parameters() if p.requires_grad)
    assert trained - (1024 - 64) * 768 == 132_874


class Watch(pl.Callback):
    """Records the parameters with a gradient after a backward pass."""

    def __init__(self) -> None:
        self.with_gradient: set[str] = set()

    def on_after_backward(self, trainer: pl.Trainer, task: Any) -> None:
        self.with_gradient |= {n for n, p in task.net.named_parameters() if p.grad is not None}


def train(net: Classifier) -> tuple[Watch, torch.optim.Optimizer]:
    """A few real updates, with weight decay, which would touch whatever the optimiser is given."""
    watch = Watch()
    trainer = pl.Trainer(
        max_steps=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, limit_val_batches=0, callbacks=[watch], gradient_clip_val=1.0,
    )  # fmt: skip
    task = Classification(net, partial(torch.optim.AdamW, lr=0.01, weight_decay=0.1), Constant)
    trainer.fit(task, datamodule=BitXorData(16))
    return watch, trainer.optimizers[0]


FROZEN: list[tuple[str, list[str]]] = [
    ("gpt2", ["input", "output", "norms", "positions"]), ("gpt2", ["output"]),
    ("vit", ["output", "norms", "feed_forward"]), ("bert", ["input", "last_attention"]),
    ("lstm", ["input", "output", "norms"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "chosen"), FROZEN)
def test_training_leaves_what_is_frozen_as_it_was(name: str, chosen: list[str]) -> None:
    net = classifier(name, chosen)
    trained = set().union(*(names(net, group) for group in chosen))
    before = {n: p.detach().clone() for n, p in net.named_parameters()}
    watch, optimizer = train(net)
    parameters = dict(net.named_parameters())
    assert watch.with_gradient == trained
    assert {n for n, p in parameters.items() if p.grad is not None} <= trained
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert held == {id(parameters[n]) for n in trained} == {id(p) for p in optimizer.state}
    for n, p in parameters.items():
        same = torch.equal(p.detach().view(torch.int32), before[n].view(torch.int32))
        assert same is (n not in trained), n


@torch.no_grad()
def test_dropout_acts_in_a_frozen_body_while_it_trains() -> None:
    net = classifier(trained=["output"]).train()
    net.input.dropout.p = net.body.dropout.p = 0.0  # type: ignore[union-attr, assignment]
    x = torch.randn(2, 9, 1)
    assert float((net(x) - net(x)).abs().max()) > 1e-5, "layers drop, frozen or not"
    net.eval()
    assert torch.equal(net(x), net(x))
