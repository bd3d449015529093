"""Parameter counts: shared ones once, what is trained, and what is said of a difference."""

from functools import partial
from typing import Any

import pytest
import torch

from repro.cli.main import main
from repro.experiment.parameters import count, describe, trained, unit_of
from repro.models import Classifier, Gpt2, Recurrent
from repro.nn import VectorEmbedding
from repro.paths import PROJECT
from repro.recipe import Recipe, load_recipe


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    monkeypatch.setenv("REPRO_RESULTS", str(PROJECT / "results"))


def test_what_layers_share_counts_once_in_every_sum() -> None:
    counted = count(load_recipe("transformer-xl/enwik8-12l"))
    layers, width, heads, ff, size = 12, 512, 8 * 64, 2048, 204
    layer = 5 * width * heads + 2 * width * ff + ff + width + 4 * width
    assert counted["total"] == layers * layer + size * (width + 1) + 2 * heads, "u and v are there once"
    assert sum(counted["parts"].values()) == counted["total"]


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        ("transformer-xl/enwik8-12l", "equal to the printed count within its rounding"),
        ("transformer-xl/wt103-large", "the header of the recipe gives the reason"),
    ],
)
def test_a_difference_is_explained(experiment: str, message: str) -> None:
    assert message in describe(count(load_recipe(experiment)))


def test_a_known_reason_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["params", "attention-is-all-you-need/base"])
    assert "The paper does not state the vocabulary of its counts" in capsys.readouterr().out


def test_the_unit_of_a_printed_count() -> None:
    assert [unit_of(n) for n in (65_000_000, 41_100_000, 123)] == [10**6, 10**5, 1]


PICTURES = {"input": 37_632, "output": 7_690, "positions": 1024 * 768, "norms": 38_400}


def pictures(**more: Any) -> Classifier:
    """Reads CIFAR-10 as 64 patches of 4 x 4 pixels in three colours."""
    body = more.pop("body", None) or Gpt2()
    given = {"n_classes": 10, "trained": ["input", "output", "norms", "positions"], **more}
    return Classifier(partial(VectorEmbedding, size=48), body, **given)


def test_what_is_trained_is_what_the_paper_counts() -> None:
    with torch.device("meta"):
        assert trained(pictures()) == PICTURES
        assert trained(pictures(trained=["norms"])) == {"norms": 12 * 4 * 768 + 2 * 768}
        assert sum(trained(pictures(trained=None)).values()) == 85_842_432 + 37_632 + 7_690, "each once"


def test_what_receives_a_gradient_is_what_the_paper_counts() -> None:
    net = pictures()
    net(torch.randn(1, 64, 48)).sum().backward()
    table = net.body.positions.table.table.weight
    assert int(table.grad.abs().sum(1).count_nonzero()) * 768 == 64 * 768 == 49_152
    received = {id(p) for p in net.parameters() if p.grad is not None}
    assert received == {id(p) for p in net.parameters() if p.requires_grad}
    whole = sum(p.numel() for p in net.parameters() if p.grad is not None)
    assert whole - table.numel() + 49_152 == 132_874


@pytest.mark.parametrize(
    ("groups", "result"),
    [
        (["attention", "output"], {"output": 170, "attention": 2 * (4 * 256 + 4 * 16)}),
        (["last_attention"], {"last_attention": 4 * 256 + 4 * 16}),
        (
            ["feed_forward", "last_attention"],
            {"feed_forward": 2 * (8 * 256 + 5 * 16), "last_attention": 1088},
        ),
    ],
)
def test_each_parameter_is_in_one_group(groups: list[str], result: dict[str, int]) -> None:
    assert trained(pictures(body=Gpt2(16, 2, 2, 8), trained=groups)) == result


def test_recurrent_layers_are_in_none() -> None:
    net = pictures(body=Recurrent(16, 1), trained=None)
    norms = 2 * (2 * 64 + 16)
    assert trained(net) == {"input": 49 * 16, "output": 170, "norms": norms, "other": 2 * (16 * 64 + 64)}


def test_what_is_trained_is_shown() -> None:
    config = {
        "model": {
            "class_path": "repro.tasks.Classification",
            "init_args": {
                "optimizer": {"class_path": "torch.optim.Adam"},
                "schedule": "repro.tasks.Constant",
                "net": {
                    "class_path": "repro.models.Classifier",
                    "init_args": {
                        "input": {"class_path": "repro.nn.VectorEmbedding", "init_args": {"size": 48}},
                        "body": "repro.models.Gpt2",
                        "n_classes": 10,
                        "trained": ["input", "output", "norms", "positions"],
                    },
                },
            },
        }
    }
    counted = count(Recipe("frozen-pretrained-transformer/x", "small", config))
    assert counted["trained"] == PICTURES
    assert counted["trained_total"] == sum(PICTURES.values())
    displayed = describe(counted)
    assert "norms                 38,400   trained" in displayed
    assert f"total        {sum(PICTURES.values()):>15,}   trained" in displayed
    plain = count(load_recipe("transformer-xl/enwik8-12l"))
    assert (plain["trained"], plain["trained_total"]) == ({}, plain["total"])
    assert "trained" not in describe(plain)
