"""The infinity-former: the committed recipes train as deep-spin/infinite-former does."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.nn import Dropout

from repro.batches import ExampleBatch, Examples, StreamBatch
from repro.models.pretrained import translate
from repro.nn.attention.relative.distance import DistanceAttention
from tests.models import golden_adaptive, golden_continuous, golden_relative
from tests.parity.golden import Golden, check, read
from tests.parity.training import Trained, difference, differences, make_task, train

PAPER = "infinity-former"
SORTING = "infinity-former_sorting"
STICKY = "infinity-former_gpt2_sticky"
HEAD = "proj_output.weight"
UNUSED = ("qkv_net_", "proj_query")  # made by theirs, and never called


def long_term(name: str) -> str:
    """Our name of a parameter below a ``long_term_attention`` of theirs."""
    official = {official: ours for ours, official in golden_continuous.NAMES.items()}
    part, kind = name.rsplit(".", 1)
    return f"mix.body.long.{official[part]}.{kind}"


# --- sorting --------------------------------------------------------------------------------------------------------


def ours_of_sorting(theirs: dict[str, Tensor], settings: dict[str, Any]) -> dict[str, Tensor]:
    """Weights of sorting/mem_transformer.py under our names."""
    used = {name: value for name, value in theirs.items() if not any(part in name for part in UNUSED)}
    short = {name: value for name, value in used.items() if "long_term" not in name and name != HEAD}
    result = golden_relative.ours(short, settings)
    result = {name.replace("mix.body.", "mix.body.short."): value for name, value in result.items()}
    result["vocabulary.embedding.table.weight"] = result.pop("vocabulary.clusters.0.table.weight")
    result["vocabulary.head.proj.weight"] = theirs[HEAD]
    for name, value in used.items():
        if "long_term" in name:
            _, layer, _, _, rest = name.split(".", 4)
            result[f"stack.layers.{layer}.{long_term(rest)}"] = value
    return result


def overrides_of_sorting(settings: dict[str, Any]) -> dict[str, Any]:
    """The overrides that shrink the recipe of sorting to the file's settings."""
    net, mixer = "model.net", "model.net.blocks.mixers.0"
    return {
        "model.optimizer.lr": settings["lr"],
        "model.segment": settings["T"],
        f"{net}.d_model": settings["d_model"],
        f"{net}.dropout": 0.0,
        f"{net}.final_dropout": 0.0,
        f"{mixer}.block": settings["T"],
        f"{mixer}.short_term.n_heads": settings["n_head"],
        f"{mixer}.short_term.d_head": settings["d_head"],
        f"{mixer}.short_term.mem_len": settings["T"],
        f"{mixer}.short_term.position_dropout": 0.0,
        f"{mixer}.signal.basis": settings["basis"],
        f"{mixer}.signal.kl_weight": settings["kl"],
        f"{net}.blocks.feed_forward.d_ff": settings["d_inner"],
        f"{net}.blocks.feed_forward.dropout": 0.0,
        f"{net}.blocks.feed_forward.output_dropout": 0.0,
    }


def examples(rows: Tensor, answers: int) -> Examples:
    """Rows ``(B, n)`` of which the last ``answers`` tokens are scored."""
    targets = torch.full_like(rows[:, 1:], -1)
    targets[:, -answers:] = rows[:, -answers:]
    scored = (targets >= 0).flatten().nonzero().squeeze(1)
    return Examples(rows[:, :-1], targets, scored=scored)


def sorted_as(golden: Golden, **more: Any) -> Trained:
    """The recipe of sorting, shrunk, trained on a file's sequences."""
    settings = golden.meta["settings"]
    task, arguments = make_task(
        "infinity-former/sorting@infinity-former-8000", overrides_of_sorting(settings) | more
    )
    golden_adaptive.fill(task.module, ours_of_sorting(golden.first_weights, settings))
    batches = [examples(rows, settings["answers"]) for rows in golden["rows"][: golden.updates]]
    indices, scored = torch.arange(settings["B"]), settings["B"] * settings["answers"]
    return train(task, arguments, [[ExampleBatch(batch, indices, scored)] for batch in batches])


def logits(trained: Trained, golden: Golden) -> Tensor:
    """Scores of the last sequences' answers, time first."""
    task: Any = trained.task.eval()
    with torch.no_grad():
        hidden, _, _ = task.hidden(examples(golden["rows"][-1], golden.meta["settings"]["answers"]))
        scores: Tensor = task.net.vocabulary.logits(hidden)
    return scores.unflatten(0, (golden.meta["settings"]["B"], -1)).transpose(0, 1)


def differences_of_sorting(trained: Trained, golden: Golden) -> dict[str, float]:
    """Differences of the run, and of the scores of an evaluation."""
    last = ours_of_sorting(golden.last_weights, golden.meta["settings"])
    score = difference(logits(trained, golden), golden["eval_logits"])
    return {**differences(trained, golden, last), "evaluation": score}


def test_sorting() -> None:
    golden = read(SORTING)
    check(PAPER, golden, differences_of_sorting(sorted_as(golden), golden))


@pytest.mark.parametrize(
    "mistake",
    [
        {"model.optimizer.eps": 1e-4},
        {"model.segment": 29},
        {"model.net.blocks.mixers.0.short_term.mem_len": 7},
        {"model.net.blocks.mixers.0.signal.kl_weight": 0.0},
        {"model.schedule.steps": 20, "model.schedule.every": None},
        {"model.schedule.steps": 20, "model.schedule.every": 6},
    ],
    ids=["epsilon", "no-segments", "memory", "divergence", "smooth-cosine", "early-step"],
)
def test_a_mistake_in_sorting_shows(mistake: dict[str, Any]) -> None:
    golden = read(SORTING)
    result = differences_of_sorting(sorted_as(golden, **mistake), golden)
    assert result["weights"] > 1e-6, result


def test_the_rate_of_sorting_stands_still_for_239_batches() -> None:
    golden = read(SORTING)
    result = differences_of_sorting(sorted_as(golden, **{"model.schedule.steps": 240}), golden)
    assert max(result.values()) < 1e-11, result


@pytest.mark.parametrize("point", ["infinity-former-8000", "transformer-xl-8000", "compressive-8000"])
def test_dropout_of_sorting_is_where_theirs_is(point: str) -> None:
    """On embeddings, sinusoids and outputs, and twice in a feed-forward layer; not on the branch of attention.

    Source: sorting/mem_transformer.py, lines 45 to 53, 650, 651, 678 and 375 to 397.
    """
    task, _ = make_task(f"infinity-former/sorting@{point}", {"model.net.d_model": 36})
    dropped = {
        name for name, module in task.module.named_modules() if isinstance(module, Dropout) and module.p > 0
    }
    parts = {f"feed_forward.body.{part}" for part in ("dropout", "output_dropout")}
    expected = {f"stack.layers.{layer}.{part}" for layer in range(3) for part in parts}
    assert dropped == expected | {"dropout", "final_dropout"}
    mixers = [module for module in task.module.modules() if isinstance(module, DistanceAttention)]
    assert [(mixer.position_dropout, mixer.dropout) for mixer in mixers] == [(0.1, 0.0)] * 3


# --- GPT-2 with sticky memories -------------------------------------------------------------------------------------


class Drawn:
    """Draws of sticky memories as a file has them, and what each was drawn from.

    Attributes:
        probabilities: ``(bins,)`` of each row for each update and layer, where one was drawn.
    """

    def __init__(self, golden: Golden) -> None:
        self.layers = int(golden.meta["settings"]["layers"])
        self.bins, self.calls = golden["bins"], self.layers  # the first update has no memory to draw for
        self.probabilities: dict[tuple[int, int], Tensor] = {}

    def __call__(self, mass: Tensor, counter: Tensor, samples: int, seed: Tensor) -> Tensor:
        update, layer = divmod(self.calls, self.layers)
        self.calls += 1  # an update of a memory that is empty is asked for, too, and draws nothing
        self.probabilities[update, layer] = mass / mass.sum(-1, keepdim=True).clamp(min=1e-300)
        return self.bins[update, layer].clamp(min=0).sort(-1).values


def ours_of_gpt2(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of the fork of transformers under our names."""
    short = {name: value for name, value in theirs.items() if "long_term" not in name}
    result = {
        name.replace("mix.body.", "mix.body.short."): value
        for name, value in translate("gpt2", short).items()
    }
    for name, value in theirs.items():
        if "long_term" in name and not any(part in name for part in UNUSED):
            _, _, layer, _, _, rest = name.split(".", 5)
            result[f"stack.layers.{layer}.{long_term(rest)}"] = value
    return result


def overrides_of_gpt2(settings: dict[str, Any]) -> dict[str, Any]:
    """The overrides that shrink the recipe of GPT-2 to the file's settings."""
    net, mixer = "model.net", "model.net.blocks.mixers.0"
    return {
        "model.schedule.steps": settings["total"],
        "model.optimizer.rates.long": settings["lr_ltm"],
        "model.optimizer.optimizer.lr": settings["lr"],
        "model.protocol.seq_len": settings["T"],
        f"{net}.d_model": settings["d"],
        f"{net}.n_layers": settings["layers"],
        f"{net}.dropout": 0.0,
        f"{net}.vocabulary.size": settings["V"],
        f"{net}.positions.table.max_length": settings["places"],
        f"{mixer}.block": settings["T"],
        f"{mixer}.short_term.n_heads": settings["heads"],
        f"{mixer}.short_term.dropout": 0.0,
        f"{mixer}.signal.basis": settings["basis"],
        f"{mixer}.signal.kl_weight": settings["kl"],
        f"{mixer}.signal.forget_after": settings["forget"],
        f"{net}.blocks.feed_forward.d_ff": 4 * settings["d"],
        f"{net}.blocks.sublayer.dropout": 0.0,
    }


def block(ids: Tensor, update: int, length: int) -> StreamBatch:
    """One block ``(B, length)`` of a text; its first token is not predicted."""
    inputs = ids[:, update * length : (update + 1) * length]
    targets = torch.full_like(inputs, -1)
    targets[:, :-1] = inputs[:, 1:]
    scored = (targets >= 0).flatten().nonzero().squeeze(1)
    return StreamBatch(inputs, targets, scored, torch.arange(len(ids)), update == 0, 0, scored.numel())


def tuned_as(golden: Golden, **more: Any) -> tuple[Trained, Drawn]:
    """The recipe of GPT-2 with sticky memories, shrunk, trained on a file's text with its draws."""
    settings, drawn = golden.meta["settings"], Drawn(golden)
    task, arguments = make_task(
        "infinity-former/gpt2@infinity-former-sm-wikitext103", overrides_of_gpt2(settings) | more
    )
    golden_adaptive.fill(task.module, ours_of_gpt2(golden.first_weights))
    steps = [[block(golden["ids"], update, settings["T"])] for update in range(golden.updates)]
    with patch("repro.nn.attention.continuous.memory.draw_bins", drawn):
        return train(task, arguments, steps), drawn


def differences_of_gpt2(trained: Trained, drawn: Drawn, golden: Golden) -> dict[str, float]:
    """Differences of the run, and of the probabilities wherever theirs drew from some."""
    last = ours_of_gpt2(golden.last_weights)
    rates = golden["lr"][
        :, 1:
    ]  # theirs has two groups of GPT-2, with decay and without, whose rates are the same
    assert torch.equal(golden["lr"][:, 0], golden["lr"][:, 1])
    result = differences(trained, replace(golden, arrays={**golden.arrays, "lr": rates}), last)
    drew = [update for update, happened in enumerate(golden.meta["drawn"]) if happened]
    places = [(update, layer) for update in drew for layer in range(drawn.layers)]
    off = [difference(drawn.probabilities[place], golden["probs"][place]) for place in places]
    return {**result, "evaluation": max(off)}


def test_gpt2_with_sticky_memories() -> None:
    golden = read(STICKY)
    check(PAPER, golden, differences_of_gpt2(*tuned_as(golden), golden))


@pytest.mark.parametrize(
    "mistake",
    [
        {"model.optimizer.optimizer.class_path": "torch.optim.Adam"},
        {"model.optimizer.optimizer.eps": 1e-5},
        {"model.optimizer.wait_for_gradient": False},
        {"model.schedule.steps": 13},
        {"model.net.blocks.mixers.0.signal.forget_after": 30},
        {"model.net.blocks.mixers.0.signal.kl_mean": None},
    ],
    ids=["torch's Adam", "epsilon", "empty block counts", "schedule", "memory forgets later", "divergence"],
)
def test_a_mistake_in_gpt2_shows(mistake: dict[str, Any]) -> None:
    golden = read(STICKY)
    result = differences_of_gpt2(*tuned_as(golden, **mistake), golden)
    assert result["weights"] > 1e-5, result
