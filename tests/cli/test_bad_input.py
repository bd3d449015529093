"""Mistyped input gives one clear line that names the value and the remedy, exit code 2."""

import sys

import pytest

from repro.experiment.build import IMPORTABLE
from repro.experiment.error_messages import one_line
from tests.workshop import PAPER, RECIPE, TINY, Workshop, call

NET = "model.init_args.net.init_args"


def run_tiny(*more: str, name: str = TINY) -> tuple[str, ...]:
    return ("run", name, "--scale", "cpu", *more)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("config", f"{PAPER}/tinny"), (f"'{PAPER}/tinny'", f"nearest: {TINY}", "repro list")),
        (("list", "attention-is-all"), ("'attention-is-all'", f"nearest: {PAPER}")),
        (("run", PAPER), (f"'{PAPER}'", f"repro list {PAPER}", f"repro reproduce {PAPER}")),
        (("run", f"{PAPER}:table2"), (f"'{PAPER}:table2'", f"repro reproduce {PAPER}:table2")),
        (("run", TINY, "--d_model", "3"), ("'--d_model'", "--trainer.max_steps", "repro config")),
        (("rnu", TINY), ("'rnu'", "nearest: run")),
        (("run", TINY, "--scale", "cup"), ("--scale", "'cup'", "paper, gpu, small, cpu")),
        (("run", TINY, "--scale", "small"), ("no scale 'small'", "it has: paper, cpu")),
        (("reproduce", "attention", "--dry-run"), ("'attention'", f"nearest: {PAPER}")),
        (("reproduce", TINY, "--seeds", "0"), ("--seeds", "at least 1", "0")),
        (("submit", TINY, "--cluster", "cpu", "--seeds", "0", "--dry-run"), ("--seeds", "at least 1")),
        (("submit", TINY, "--cluster", "nope", "--dry-run"), ("'nope'", "there are:")),
        (("run", TINY, "--seeds", "15-11"), ("15-11",)),
        (("run", TINY, "--seeds", "1,x"), ("'x'",)),
        (("run", TINY, "--seeds", "1-2", "--seed", "1"), ("--seed",)),
        (("reproduce", TINY, "--seeds", "15-11", "--dry-run"), ("15-11",)),
        (("submit", TINY, "--cluster", "cpu", "--seeds", "15-11", "--dry-run"), ("15-11",)),
        (("run", TINY, "--seed", "one"), ("--seed", "'one'")),
        (("run", TINY, "--seed", "-1"), ("--seed", "from 0 to 4294967295", "-1")),
        (("run", TINY, "--seeed", "3"), ("'--seeed'", "nearest: --seed")),
        (("list", "--jsno"), ("'--jsno'", "nearest: --json")),
        (("data", "verify", "multi30k", "--form", "x"), ("'--form'",)),
        (("run", TINY, "more"), ("'more'",)),
        (("config", TINY, "--optim.lr", "3"), ("--optim.lr", "trainer, model, data, checkpoints")),
        (("config", TINY, "--model.net.d_model.x", "3"), (f"{NET}".split(".")[0], "is a value", "'x'")),
        (("config", TINY, "--model.net.d_model"), ("--model.net.d_model needs a value",)),
        (("config", TINY, "--model.net.d_model", "--model.net.d_ff", "8"), ("--model.net.d_model needs a value",)),
        (("config", TINY, "--model.net.d_model", "[1"), ("--model.net.d_model",)),
        (("show", "nope"), ("'nope'", "repro run")),
        (("show", "a", "b", "c"), ("one run or two, not 3",)),
        (("translate", "nope"), ("'nope'",)),
        (("translate", TINY), (f"repro run {TINY}",)),
        (("generate", TINY, "--temperature", "0"), ("--temperature", "0.0")),
        (("generate", TINY, "--top-p", "1.5"), ("--top-p", "1.5")),
        (("generate", TINY, "--top-k", "0"), ("--top-k", "0")),
        (("generate", TINY, "--max-new", "1000000000"), ("--max-new", "1000000000")),
        (("generate", TINY, "--seed", "99999999999"), ("--seed", "99999999999")),
        (("translate", TINY, "--run-seed", "7"), ("on seed 7", "--seed 7")),
        (("translate", TINY, "--beam", "0"), ("--beam", "0")),
        (("data", "prepare", "numbers"), ("'numbers'", "nearest: numbers-en-de")),
        (("data", "prepare", "multi30k", "--from", "nowhere"), ("nowhere", "no such folder")),
        (("completion", "bsh"), ("'bsh'", "bash")),
        (("fit", "--config", "nowhere.yaml"), ("no such file: nowhere.yaml",)),
        ((), ("VERB",)),
    ],
    ids=" ".join,
)  # fmt: skip
def test_arguments(workshop: Workshop, arguments: tuple[str, ...], parts: tuple[str, ...]) -> None:
    call(*arguments).refused(*parts)
    assert not workshop.runs.exists()
    assert workshop.records() == []


@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        ("trainer.max_step", "3", ("trainer has no key 'max_step'", "max_steps")),
        ("trainer.max_steps", "ten", ("trainer.max_steps", "int", "'ten'")),
        ("trainer.max_steps", "0", ("max_steps", "at least 1")),
        ("trainer.accelerator", "tpu", ("trainer.accelerator is tpu", "repro doctor")),
        ("trainer.precision", "7", ("trainer.precision", "'32-true'", "not '7'")),
        ("checkpoints.every_step", "3", ("checkpoints has no key 'every_step'", "every_steps")),
        ("checkpoints.every_steps", "0", ("checkpoints.every_steps", "at least 1", "0")),
        ("data.batch_token", "3", ("data.init_args has no key 'batch_token'", "batch_tokens")),
        ("data.vocab_size", "301", ("vocabulary", "300", "301")),
        ("model.lable_smoothing", "3", ("model.init_args has no key 'lable_smoothing'", "label_smoothing")),
        ("model.label_smoothing", "1.5", ("label_smoothing must be in [0, 1), not 1.5",)),
        ("model.net.d_modell", "3", (f"{NET} has no key 'd_modell'; nearest: d_model",)),
        ("model.net.positions", "null", (f"not callable; null: {NET}.positions",)),
        ("model.net.d_model", "wide", ("d_model: must be int, not 'wide'",)),
        ("model.net.vocabulary.siz", "3", (f"{NET}.vocabulary.init_args has no key 'siz'", "size")),
        ("model.net.blocks.sublayr", "3", (f"{NET}.blocks has no key 'sublayr'; nearest: sublayer",)),
        ("model.net.blocks.mixers.0.n_head", "3", (f"{NET}.blocks.mixers", "'n_head'; nearest: n_heads")),
        ("model.net.encoder_layers", "0", ("at least 1 layer, not 0",)),
        ("model.net.decoder_layers", "-1", ("at least 1 layer, not -1",)),
        ("trainer.max_steps", "0", ("trainer.max_steps must be at least 1 update, not 0",)),
        ("model.net.blocks.mixers.0.n_heads", "3", ("n_heads 3 does not divide d_model 8",)),
        ("model.net.blocks.feed_forward.d_ff", "1.5", (f"{NET}.blocks.feed_forward", "int, not '1.5'")),
        ("model.optimizer.lrr", "1", ("model.init_args.optimizer.init_args", "'lrr'; nearest: lr")),
        ("model.optimizer.lr", "abc", ("model.init_args.optimizer.lr: must be float, not 'abc'",)),
        ("model.optimizer.lr", "-1", ("model.optimizer: Invalid learning rate", "-1")),
        ("trainer.devices", "'[0]'", ("trainer: ", "devices")),
        ("model.optimizer.lr", ".inf", ("--model.optimizer.lr: inf cannot be written as JSON",)),
        ("model.schedule.factor", "-1", ("learning rates of the first updates", "at least 0")),
        ("model.net.blocks.mixers.0.dropout", "1.5", ("dropout", "below 1, not 1.5")),
        ("model.schedule", "{class_path: torch.optim.lr_scheduler.StepLR, init_args: {step_size: 0}}", ("divides",)),
        ("model.schedule.warmup_step", "1", ("schedule.init_args", "'warmup_step'; nearest: warmup_steps")),
        ("model.schedule.warmup_steps", "0", ("warmup_steps 0 must be at least 1",)),
        ("model.optimizer.class_path", "os.system", ("model.init_args.optimizer: Importing 'os.system' is not",)),
        ("model.class_path", "os.system", ("'os.system' is not allowed", "choose from", "repro.tasks")),
        ("model.optimizer.class_path", "torch.optim.Adamm", ("torch.optim has no 'Adamm'; nearest: Adam",)),
        ("model.net.class_path", "repro.models.EncoderDecodr", ("nearest: EncoderDecoder",)),
        ("model.net.blocks.sublayer", "repro.nn.PostNormm", ("blocks.sublayer: repro.nn has no", "nearest: PostNorm")),
        ("model.net.blocks.mixers", "repro.nn.FullAttention", ("mixers: must be list, not 'repro.nn.FullAttention'",)),
        ("model.net.class_path", "repro.models.DecoderLM", ("n_layers",)),
        ("model.class_path", "lightning.pytorch.LightningModule", ("model", "Task")),
    ],
)  # fmt: skip
def test_settings(workshop: Workshop, key: str, value: str, parts: tuple[str, ...]) -> None:
    line = call(*run_tiny(f"--{key}", value)).refused(*parts)
    assert len(line) < 450
    assert workshop.records() == []
    assert not list(workshop.runs.rglob("config.yaml")), "nothing may be half-written"


@pytest.mark.parametrize(
    ("right", "wrong", "parts"),
    [
        ("title:", "titel:", ("unknown key 'titel'", "nearest: title", "tiny.yaml")),
        ("    beam: 1", "    baem: 1", ("model.init_args has no key 'baem'; nearest: beam",)),
        ("val_check_interval", "val_check_intervall", ("trainer has no key", "nearest: val_check_interval")),
        ("feed_forward:", "feedforward:", (f"{NET}.blocks", "'feedforward'", "feed_forward")),
        ("max_length: 60", "max_length: sixty", ("data.init_args.max_length", "int", "'sixty'")),
        ("every_steps: 1,", "every_steps: 1, every_steps: 2,", ("'every_steps' is given twice", "line")),
        ("lr: 1.0", "lr: .inf", ("optimizer.init_args.lr: inf", "finite")),
        ("  init_args:\n    beam", "  init_args: [\n    beam", ("tiny.yaml, line",)),
    ],
)
def test_recipes(workshop: Workshop, right: str, wrong: str, parts: tuple[str, ...]) -> None:
    assert right in RECIPE
    workshop.recipe(RECIPE.replace(right, wrong))
    call(*run_tiny()).refused(*parts)
    assert workshop.records() == []


def test_a_recipe_says_how_long_it_trains(workshop: Workshop) -> None:
    workshop.recipe(RECIPE.replace("max_steps: 2, ", ""), name="endless")
    call("run", f"{PAPER}/endless").refused("trainer.max_steps")
    assert workshop.records() == []


def test_a_file_that_is_no_recipe(workshop: Workshop) -> None:
    workshop.recipe("- a list\n", name="model")
    call("config", f"{PAPER}/model").refused("a recipe is a mapping")


def test_a_scale_of_no_known_name(workshop: Workshop) -> None:
    workshop.recipe("{set: {}}", scale="hugo")
    call("config", TINY).refused("tiny.yaml", "scales", "unknown key 'hugo'")


def test_a_forbidden_class_path_is_not_imported(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    (workshop.root / "planted_module.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(workshop.root))
    for key in ("model", "model.optimizer", "model.net", "data", "model.net.blocks.mixers.0"):
        call(*run_tiny(f"--{key}.class_path", "planted_module.Thing")).refused(
            "planted_module.Thing", "not allowed"
        )
    # The keys of a class are looked up for the nearest spelling; not those of a class that may not be named.
    assert one_line("parser: key \"planted_module.Thing\": Option 'x' is not accepted", importable=IMPORTABLE)
    assert one_line("class_path 'planted_module.Thing': Option 'x' is not accepted", importable=IMPORTABLE)
    assert "planted_module" not in sys.modules


@pytest.mark.parametrize("verb", ["fit", "test"])
def test_lightning_verbs_say_it_in_one_line_too(workshop: Workshop, verb: str) -> None:
    path = workshop.configs / PAPER / "tiny.yaml"
    for right, wrong, part in (
        ("    beam: 1", "    baem: 1", "model.init_args has no key 'baem'; nearest: beam"),
        ("max_steps: 2", "max_stepz: 2", "trainer has no key 'max_stepz'; nearest: max_steps"),
        ("title:", "titel:", "no key 'titel'; nearest: title"),
        ("vocab_size: 300", "vocab_size: 300, vocab_size: 4", "'vocab_size' is given twice"),
        ("{size: 300}", "{size: 301}", "301 entries"),
    ):
        workshop.recipe(RECIPE.replace(right, wrong))
        call(verb, "--config", str(path)).refused(part)
    workshop.recipe()
    call(verb, "--config", str(path), "--trainer.max_steps", "ten").refused("trainer.max_steps", "'ten'")
    call(verb, "--config", str(path), "--ckpt_path", "nowhere.ckpt").refused(
        "no such checkpoint: nowhere.ckpt"
    )
    assert sorted(p.name for p in workshop.root.iterdir()) == ["configs", "results"]


def test_debug_shows_the_traceback(workshop: Workshop) -> None:
    from repro.cli.main import main
    from repro.errors import UserError

    with pytest.raises(UserError, match="tinny"):
        main(["config", f"{PAPER}/tinny", "--debug"])


def test_an_unforeseen_error_is_one_line_and_exit_code_1(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from repro.cli import runs

    def fail(*_: object) -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(runs, "load_recipe", fail)
    line = call("config", TINY).refused("RuntimeError: first line second line", "--debug", code=1)
    assert "\n" not in line


def test_interrupting_says_how_to_go_on(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    from repro.cli import runs

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "load_recipe", interrupt)
    call("run", TINY).refused("interrupted", "same command", code=130)
    assert "same command" not in call("config", TINY).refused("interrupted", code=130)
