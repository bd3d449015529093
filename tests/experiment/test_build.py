"""Parts of a recipe that are each right and do not fit each other."""

from typing import Any

import pytest

from repro.data import BitMemoryData, BitXorData
from repro.errors import UserError
from repro.experiment.build import build, check_classifier
from repro.models import Classifier, Gpt2
from repro.nn import VectorEmbedding
from repro.recipe import Recipe

DATA: dict[str, Any] = {"batch_size": 2, "bits": 8, "patch": 4}


def classifier(
    size: int = 4, n_classes: int = 2, n_read: int = 2, per_token: int = 4, longest: int = 12
) -> Classifier:
    body = Gpt2(d_model=8, n_layers=1, n_heads=2, max_length=longest)
    return Classifier(lambda width: VectorEmbedding(width, size), body, n_classes, n_read, per_token)


def test_parts_that_fit() -> None:
    check_classifier(classifier(), BitMemoryData(**DATA))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"size": 3}, "input.init_args.size is 3, the data has 4 values of an input token"),
        ({"n_classes": 3}, "n_classes is 3, the data has 2 classes"),
        ({"n_read": 1}, "n_read x per_token is 4, the data has 8 targets of an example"),
        ({"longest": 11}, "examples have 12 tokens, the network learns 11 positions only"),
    ],
)
def test_parts_that_do_not_fit_are_refused(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_classifier(classifier(**wrong), BitMemoryData(**DATA))


def test_more_tokens_read_than_there_are() -> None:
    with pytest.raises(ValueError, match="n_read 5 is more than the 2 tokens of an example"):
        check_classifier(classifier(size=1, n_read=5, per_token=1), _Short(batch_size=2, bits=1))


class _Short(BitXorData):
    def __init__(self, batch_size: int, bits: int) -> None:
        super().__init__(batch_size, bits)
        self.n_targets = 5


def test_a_recipe_says_it_in_one_line() -> None:
    net = {
        "class_path": "repro.models.Classifier",
        "init_args": {
            "input": {"class_path": "repro.nn.VectorEmbedding", "init_args": {"size": 1}},
            "body": {
                "class_path": "repro.models.Gpt2",
                "init_args": {"d_model": 8, "n_layers": 1, "n_heads": 2},
            },
            "n_classes": 2,
            "n_read": 4,
        },
    }
    model = {
        "class_path": "repro.tasks.Classification",
        "init_args": {"net": net, "optimizer": "torch.optim.Adam", "schedule": "repro.tasks.Constant"},
    }
    data = {"class_path": "repro.data.BitXorData", "init_args": {"batch_size": 2}}
    config = {"trainer": {"max_steps": 1}, "model": model, "data": data}
    with pytest.raises(UserError, match=r"^p/r \(paper\): .*n_read x per_token is 4, the data has 5 targets"):
        build(Recipe("p/r", "paper", config), meta=True)
