"""The infinity-former: the committed recipes train as deep-spin/infinite-former does."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Dropout

from repro.batches import ExampleBatch, Examples
from repro.nn.attention.relative.distance import DistanceAttention
from tests.models import golden_adaptive, golden_continuous, golden_relative
from tests.parity.golden import Golden, check, read
from tests.parity.training import Trained, difference, differences, make_task, train

PAPER = "infinity-former"
SORTING = "infinity-former_sorting"
UNUSED = ("qkv_net_", "proj_query")  # made by theirs, and never called


def long_term(name: str) -> str:
    """Our name of a parameter below a ``long_term_attention`` of theirs."""
    theirs = {theirs: ours for ours, theirs in golden_continuous.NAMES.items()}
    part, kind = name.rsplit(".", 1)
    return f"mix.body.long.{theirs[part]}.{kind}"


# --- sorting --------------------------------------------------------------------------------------------------------


def ours_of_sorting(theirs: dict[str, Tensor], settings: dict[str, Any]) -> dict[str, Tensor]:
    """Weights of sorting/mem_transformer.py under our names."""
    used = {name: value for name, value in theirs.items() if not any(part in name for part in UNUSED)}
    short = {name: value for name, value in used.items() if "long_term" not in name and name != HEAD}
    found = golden_relative.ours(short, settings)
    found = {name.replace("mix.body.", "mix.body.short."): value for name, value in found.items()}
    found["vocabulary.embedding.table.weight"] = found.pop("vocabulary.clusters.0.table.weight")
    found["vocabulary.head.proj.weight"] = theirs[HEAD]
    for name, value in used.items():
        if "long_term" in name:
            _, layer, _, _, rest = name.split(".", 4)
            found[f"stack.layers.{layer}.{long_term(rest)}"] = value
    return found


HEAD = "proj_output.weight"


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
    found = differences_of_sorting(sorted_as(golden, **mistake), golden)
    assert found["weights"] > 1e-6, found


def test_the_rate_of_sorting_stands_still_for_239_batches() -> None:
    golden = read(SORTING)
    found = differences_of_sorting(sorted_as(golden, **{"model.schedule.steps": 240}), golden)
    assert max(found.values()) < 1e-11, found


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
    wanted = {f"stack.layers.{layer}.{part}" for layer in range(3) for part in parts}
    assert dropped == wanted | {"dropout", "final_dropout"}
    mixers = [module for module in task.module.modules() if isinstance(module, DistanceAttention)]
    assert [(mixer.position_dropout, mixer.dropout) for mixer in mixers] == [(0.1, 0.0)] * 3
