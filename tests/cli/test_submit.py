"""``repro submit`` as typed: what hostile values become, where secrets do not go, what it prints."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repro.cli import cluster as module
from repro.cli.runs import joined, parse_overrides
from repro.launch.slurm.limits import Limits
from repro.launch.targets import resolve_targets
from repro.recipe import load_recipe
from tests.launch.batch import run_batch
from tests.launch.conftest import World, named
from tests.launch.fake_cluster import FakeCluster, cluster, small_project
from tests.workshop import PAPER, TINY, Said, Workshop, call

__all__ = ["cluster", "small_project"]
SITE = 'time: "01:00:00"\ngpus_per_node: 0\ntasks_per_node: 2\nenv: {WANDB_MODE: disabled}\n'
# To be refused where a name is wanted, and to arrive verbatim where a value is.
HOSTILE = [
    "a;b", "$(touch pwned)", "`touch pwned`", "a\nb", "a\n#SBATCH --uid=0", "'; touch pwned; '", '"; touch pwned; "',
    "a b", "  a  ", "été ∞ 漢字", "--wrap=touch pwned", "-x", "../x", "../../../tmp/x", "/etc/passwd", "*", "?[a-z]",
    "{a,b}", "~root", "$HOME", "${PATH}", "\\", "a\\nb", "a|b", "a>pwned", "a&b", "a && touch pwned", "!!", "#x",
    "%j", "a\tb", "!!python/object/apply:os.system ['touch pwned']", "'", '"', "\u202ea", "é" * 200, "EOF", "a=b", "--",
]  # fmt: skip


RUNNABLE = module.require_runnable  # before any test replaces it


@pytest.fixture
def site(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, small_project: None) -> Workshop:
    """The workshop with one cluster profile."""
    folder = workshop.root / "clusters"
    folder.mkdir()
    (folder / "site.yaml").write_text(SITE)
    monkeypatch.setenv("REPRO_CLUSTERS", str(folder))
    monkeypatch.setattr(module, "require_runnable", lambda plan: None)
    monkeypatch.setattr(
        "repro.launch.submit.read_limits", Limits
    )  # where Slurm is installed, it looks for a cluster
    monkeypatch.setattr("repro.launch.submit.test_script", lambda script, profile: None)
    return workshop


def everything(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


def submit(*arguments: str, target: str = TINY) -> Said:
    return call("submit", target, "--cluster", "site", "--scale", "cpu", "--seeds", "1", *arguments)


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_setting_arrives_verbatim_and_nothing_else_happens(
    site: Workshop, tmp_path: Path, value: str
) -> None:
    """In quotes it is text to YAML too; what the job gets makes the same run of it."""
    given = json.dumps(value, ensure_ascii=False)
    output = submit("--dry-run", "--model.init_args.remark", given)
    assert output.code == 0, output.err
    assert not (site.root / "runs").exists()
    ended = run_batch(output.out, tmp_path / "node")
    assert ended.code == 0, ended.out
    words = ended.ranks
    at = words.index("run")
    assert words[: at + 6] == [
        "--kill-on-bad-exit=1", "--label", "python3", "-P", "-m", "repro", "run", TINY, "--scale", "cpu",
        "--seed", "1",
    ][: at + 6]  # fmt: skip
    settings = parse_overrides(joined(words[at + 6 : words.index("--trainer.num_nodes")]))
    assert settings == [("model.init_args.remark", value)]
    assert f"s1-{load_recipe(TINY, 'cpu', settings).hash8}" in output.out


@pytest.mark.parametrize("value", [*HOSTILE, "a\0b", "", "a" * 300])
def test_a_hostile_target_or_profile_is_refused(site: Workshop, value: str) -> None:
    before = everything(site.root)
    for words in ([value, "--cluster", "site"], [TINY, f"--cluster={value}"]):
        output = call("submit", *words, "--scale", "cpu", "--dry-run")
        output.refused()
        assert output.out == ""
    assert everything(site.root) == before


@pytest.mark.parametrize(
    "value", ["a;b", "$(touch pwned)", "../x", "/etc", "a b", "a\nb", "-x", "a\0b", "*", "été"]
)
def test_a_hostile_store_or_key_is_refused(
    site: Workshop, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setattr(module, "require_runnable", RUNNABLE)
    for words in (
        f"--data.init_args.store={json.dumps(value)}",
        f"--model.{value}=1",
        f"--model.x.{value};=1",
    ):
        output = submit("--dry-run", words)
        output.refused()
        assert output.out == ""


@pytest.mark.parametrize("value", [".inf", ".nan"])
def test_a_setting_that_json_cannot_carry_is_refused_before_the_queue(
    site: Workshop, cluster: FakeCluster, value: str
) -> None:
    for words in ([f"--model.init_args.remark={value}"], ["--grid", f"model.init_args.remark=1,{value}"]):
        submit(*words).refused(f"--model.init_args.remark: {value[1:]} cannot be written as JSON")
    assert cluster.tasks() == []


@pytest.mark.parametrize("name", ["a;b", "$(touch pwned)", "a b", "a\nb", "`x`", "été", "'", '"', "*", "a|b"])
@pytest.mark.parametrize("kind", ["recipe", "point", "paper", "profile", "start_from"])
def test_hostile_names_of_files_are_refused(site: Workshop, kind: str, name: str) -> None:
    target, profile = PAPER, "site"
    if kind == "recipe":
        site.recipe(name=name)
        site.recipe("set: {trainer.max_steps: 1}", name=name, scale="cpu")
    elif kind == "point":
        site.recipe(f"title: x\npoints: {{{json.dumps(name)}: {{trainer.max_steps: 1}}}}\n", name="grid")
        site.recipe("set: {trainer.max_steps: 1}", name="grid", scale="cpu")
    elif kind == "paper":
        target = name
        (site.configs / name).mkdir()
        (site.configs / name / "x.yaml").write_text("title: x\nscales: {cpu: {}}\n")
    elif kind == "profile":
        profile = name
        (site.root / "clusters" / f"{name}.yaml").write_text(SITE)
    else:
        site.recipe(f"title: x\nstart_from: {json.dumps(name)}\n", name="last")
        site.recipe("set: {trainer.max_steps: 1}", name="last", scale="cpu")
    before = everything(site.root)
    output = call("submit", target, f"--cluster={profile}", "--scale", "cpu", "--dry-run")
    output.refused()
    assert output.out == ""
    assert everything(site.root) == before


def test_a_point_that_leads_elsewhere_is_refused(site: Workshop) -> None:
    site.recipe('title: x\npoints: {"../../../../x": {trainer.max_steps: 1}}\n', name="grid")
    site.recipe("set: {trainer.max_steps: 1}", name="grid", scale="cpu")
    call("submit", f"{PAPER}/grid", "--cluster", "site", "--scale", "cpu", "--dry-run").refused(
        "cannot name a point"
    )


SECRETS = {
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
    "HF_TOKEN": "hf_SesameOpenSesame",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCY",
    "MY_PASSWORD": "correct horse battery",
}


def test_secrets_are_nowhere(site: Workshop, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in scripts, ledger, snapshot, difference, nor on the terminal; the job gets them from Slurm."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    output = [submit("--dry-run", "--tables"), submit("--dry-run", "--json"), submit("--tables", "--json")]
    output += [submit(), submit(target=PAPER)]
    assert [s.code for s in output] == [0] * 5
    written = b"".join(p.read_bytes() for p in site.root.rglob("*") if p.is_file())
    displayed = "".join(s.out + s.err for s in output).encode()
    assert b"submission" in written
    assert [name for name, value in SECRETS.items() if value.encode() in written + displayed] == []
    assert cluster.environment()["WANDB_API_KEY"] == SECRETS["WANDB_API_KEY"]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_is_typed_is_refused_and_not_repeated(
    site: Workshop, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, SECRETS[name])
    output = submit("--model.init_args.x", SECRETS[name])
    output.refused(f"${name}")
    assert SECRETS[name] not in output.out + output.err
    profile = site.root / "clusters" / "site.yaml"
    profile.write_text(f'{SITE}setup: ["login {SECRETS[name]}"]\n')
    output = submit()
    output.refused(f"${name}", "the script")
    assert SECRETS[name] not in output.out + output.err
    assert cluster.tasks() == []


def test_what_is_printed(site: Workshop, cluster: FakeCluster) -> None:
    output = submit("--tables")
    assert output.code == 0, output.err
    assert output.err == ""
    lines = output.out.splitlines()
    assert lines[0] == "runs: 1 to submit, 0 already recorded, 0 already queued"
    assert "submitted: job 1, attention-is-all-you-need.tiny.cpu" in lines
    assert "submitted: job 2, attention-is-all-you-need.tiny.cpu.tables" in lines
    assert lines[-1].startswith(f"next: repro status, repro logs {TINY}/cpu/s1-")
    again = submit()
    assert again.out.splitlines()[0] == "runs: 0 to submit, 0 already recorded, 1 already queued"
    assert again.out.splitlines()[-1].startswith("nothing to submit")
    assert len(cluster.calls("sbatch")) == 2


def test_a_dry_run_prints_scripts_on_stdout_and_all_else_on_stderr(site: Workshop) -> None:
    output = submit("--dry-run", "--tables")
    assert output.out.count("#!/bin/bash\n") == 2
    assert "#SBATCH --dependency=afterany:<id of job 1>\n" in output.out
    assert output.err.splitlines()[-1] == "dry run: nothing was submitted"
    assert not set(output.err.splitlines()) & set(output.out.splitlines())
    assert subprocess.run(["bash", "-n"], input=output.out.encode(), check=False).returncode == 0


def test_json_has_an_object_for_each_run(site: Workshop, cluster: FakeCluster) -> None:
    def states(*words: str) -> list[tuple[Any, ...]]:
        result = call("submit", TINY, "--cluster", "site", "--scale", "cpu", "--json", *words).json()
        return [(row["seed"], row["state"], row["job"]) for row in result]

    assert states("--seeds", "2", "--dry-run") == [(1, "to submit", None), (2, "to submit", None)]
    assert states("--seeds", "1") == [(1, "submitted", "1_0")]
    assert states("--seeds", "2") == [(1, "queued", "1_0"), (2, "submitted", "2_0")]
    assert states("--seeds", "11-12", "--dry-run") == [(11, "to submit", None), (12, "to submit", None)]
    row = call("submit", TINY, "--cluster", "site", "--scale", "cpu", "--seeds", "1", "--json").json()[0]
    assert set(row) == {
        "run_id",
        "experiment",
        "scale",
        "seed",
        "settings",
        "state",
        "name",
        "job",
        "script",
        "waits_for",
    }


def test_recorded_runs_are_said_to_be(site: Workshop) -> None:
    first, _ = resolve_targets([TINY], "cpu", named(1, 2))
    World(site.root).record(first)
    output = call(
        "submit", TINY, "--cluster", "site", "--scale", "cpu", "--seeds", "2", "--dry-run", "--json"
    )
    assert [row["state"] for row in output.json()] == ["recorded", "to submit"]


def test_a_damaged_store_is_found_before_the_queue(
    workshop: Workshop, site: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that a run would generate if it were missing."""
    monkeypatch.setattr(module, "require_runnable", RUNNABLE)
    store = workshop.root / "data" / "numbers-en-de" / "bpe300-n300"
    monkeypatch.setenv("REPRO_DATA", str(store.parents[1]))
    assert submit("--dry-run").code == 0
    store.mkdir(parents=True)
    (store / "manifest.json").write_text('{"x": 1}')
    submit("--dry-run").refused("store numbers-en-de/bpe300-n300 cannot be used")


@pytest.mark.parametrize("variable", ["REPRO_RESULTS", "REPRO_TRIALS"])
def test_nothing_is_queued_whose_record_could_not_be_written(
    site: Workshop, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (site.root / "elsewhere").mkdir()
    (site.root / "elsewhere" / "runs").write_text("a file where the folder should be")
    monkeypatch.setenv(variable, str(site.root / "elsewhere"))
    submit().refused("elsewhere/runs", "make the folder writable")
    assert cluster.tasks() == []
    assert submit("--dry-run").code == 0


def test_a_refusal_of_slurm_is_one_line(site: Workshop, cluster: FakeCluster) -> None:
    cluster.refuses(1, complaint="invalid partition specified: nowhere")
    submit().refused("sbatch refuses: invalid partition specified: nowhere", "cluster profile site")
    assert not [p for p in (site.runs / "slurm").iterdir() if p.name not in (".lock", "snapshots")]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--trainer.devices", "2"], ("--trainer.devices", "cluster profile")),
        (["--trainer.strategy=ddp"], ("--trainer.strategy", "cluster profile")),
        (["--max_steps", "10"], ("'--max_steps'",)),
        (["--tabels"], ("'--tabels'", "nearest: --tables")),
        (["--optim.lr", "1"], ("--optim.lr", "trainer, model, data, checkpoints")),
        (["--seeds", "0"], ("--seeds", "at least 1")),
        (["--seeds", "15-11"], ("15-11", "backwards")),
        (["--seeds", "1-3,2"], ("1-3,2",)),
    ],
)
def test_bad_arguments(site: Workshop, words: list[str], parts: tuple[str, ...]) -> None:
    submit("--dry-run", *words).refused(*parts)


def test_completion_offers_profiles(site: Workshop, tmp_path: Path) -> None:
    out, line = tmp_path / "out", f"repro submit {TINY} --cluster s"
    env = {
        **os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "_ARGCOMPLETE": "1", "COMP_LINE": line,
        "COMP_TYPE": "9", "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(out),
    }  # fmt: skip
    subprocess.run([sys.executable, "-m", "repro"], env=env, capture_output=True, check=False)
    assert out.read_text().split() == ["site"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model.init_args.net.init_args.d_modell", "8"], "no key 'd_modell'; nearest: d_model"),
        (["--model.init_args.net.init_args.d_model", "9"], "sinusoidal positions need an even width, not 9"),
        (["--trainer.max_time", "00:00:00:04"], "trainer.max_time is not supported"),
        (["--trainer.gradient_clip_algorithm", "nom"], "`gradient_clip_algorithm` nom is invalid"),
        (
            ["--stop.metric", "val/loss", "--stop.patience", "1", "--trainer.limit_val_batches", "0"],
            "needs a validation",
        ),
        (["--data.init_args.store", "multi30k/bpe300"], "no store multi30k/bpe300 in the data folder"),
    ],
)
@pytest.mark.parametrize("dry", [True, False])
def test_nothing_is_queued_that_cannot_begin(
    workshop: Workshop, cluster: FakeCluster, site: Workshop, monkeypatch: pytest.MonkeyPatch,
    words: list[str], message: str, dry: bool,
) -> None:  # fmt: skip
    """What `repro run` would say first, before the queue; a generated store is made by the run."""
    monkeypatch.setattr(module, "require_runnable", RUNNABLE)
    done = submit(*["--dry-run"] * dry, *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert cluster.tasks() == []
    assert submit(*["--dry-run"] * dry).code == 0
    assert len(cluster.tasks()) == 1 - dry
