"""How many kernels an update launches on a GPU, counted on the meta device: small models wait for little else."""

import pytest

from repro.experiment.costs.estimate import cost
from repro.recipe import load_recipe
from tests.workshop import PROJECT

# Most launches of an update at the paper's size. Before they were looked at: 789, 5,482, 2,410, 460 and 1,470;
# then 1,763, 1,586, 3,708, 2,619, about 65,000.
FEW = {
    "attention-is-all-you-need/base": 650,
    "linear-transformer/cifar10@linear": 1_370,  # a quarter of what it was
    "linear-transformer/cifar10@softmax": 710,
    "frozen-pretrained-transformer/cifar10@random": 360,
    "transformer-xl/enwik8-12l": 980,  # 11,351 where a CPU's tiles are counted
}
MORE = {
    "transformer-xl/wt103-standard": 1_460,
    "shortformer/length@l128": 770,
    "infinity-former/gpt2@infinity-former-sm-wikitext103": 3_450,
    "admin/wmt14-en-de-18@adaptive-18": 2_250,
    "reformer/enwik8@reformer-12l-20k": 63_000,
}


@pytest.mark.parametrize(
    ("experiment", "most"),
    [*FEW.items(), *(pytest.param(*row, marks=pytest.mark.matrix) for row in MORE.items())],
)
def test_an_update_launches_few_kernels(experiment: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    launches = sum(cost(load_recipe(experiment)).phases[-1].step.operations.values())
    assert 0.9 * most < launches <= most
