"""A trained run in use: what training needed is folded away, and nothing that it says changes."""

import torch

from repro.experiment.build import build_task
from repro.experiment.run import run
from repro.experiment.session import MODEL_FILE
from repro.experiment.trained import best_translations, load_trained
from repro.nn.layers.shortcut import weighted_stacks
from repro.nn.layers.sublayer import WeightedShortcut
from repro.recipe import load_recipe
from repro.training.checkpoints import read
from tests.workshop import RECIPE, TINY, Workshop

LINES = ["forty-two", "the third of May", "nine hundred and one"]


def test_weighted_shortcuts_are_folded_away_where_a_model_is_used(workshop: Workshop) -> None:
    deeper = RECIPE.replace("coder_layers: 1", "coder_layers: 2").replace(
        "nn.PostNorm", "nn.WeightedPostNorm"
    )
    workshop.recipe(deeper)
    recipe = load_recipe(TINY, "cpu")
    made = run(recipe, 1, "x")
    trained = load_trained(made.run_id)
    unfolded = build_task(recipe)
    unfolded.load_state_dict(read(recipe.run_dir(1) / MODEL_FILE)["state_dict"])
    assert weighted_stacks(unfolded.net)
    left = [name for name, m in trained.task.net.named_modules() if isinstance(m, WeightedShortcut)]
    assert left == [f"{side}.layers.0.mix.shortcut" for side in ("encoder", "decoder")]
    ids, lengths = trained.sources(LINES)
    target = torch.randint(4, 300, (3, 5))
    with torch.no_grad():
        a, b = (net.eval()(ids, lengths, target).y for net in (trained.task.net, unfolded.net))
    assert float((a - b).abs().max()) < 1e-4
    assert len(best_translations(trained, LINES)) == 3
