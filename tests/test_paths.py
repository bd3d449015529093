"""Folders that are read in a checkout and from an installed wheel."""

import shutil
from pathlib import Path

import pytest

from repro import paths, recipe
from repro.errors import UserError
from repro.evidence.published import paper_keys
from repro.evidence.verified import read_verified
from repro.launch.slurm.profile import load_profile
from repro.paths import PROJECT
from repro.recipe import load_recipe, recipe_files, scales_of
from repro.record import read_records, withdrawn
from tests.workshop import call


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A working folder that is empty; no variable of the suite is set."""
    for name in ("CONFIGS", "RESULTS", "CLUSTERS", "DATA", "RUNS", "TRIALS"):
        monkeypatch.delenv(f"REPRO_{name}", raising=False)
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def carried(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed wheel with two recipes and a profile."""
    shared = tmp_path / "site" / "repro" / "_shared"
    write(shared / "configs" / "toy" / "base.yaml", "title: carried\nscales: {cpu: {}}\n")
    write(shared / "configs" / "toy" / "other.yaml", "title: other\n")
    write(shared / "slurm" / "clusters" / "site.yaml", "gpus_per_node: 0\n")
    monkeypatch.setattr(paths, "INSTALLED", True)
    monkeypatch.setattr(paths, "SHARED", shared)
    return shared


def test_in_a_checkout_all_is_in_the_checkout_whatever_the_working_folder(bare: Path) -> None:
    for name in ("configs/toy/base.yaml", "results/published/toy.yaml", "slurm/clusters/mine.yaml"):
        write(bare / name, "title: mine\n")
    assert paths.configs_dirs() == (PROJECT / "configs",)
    assert paths.results_dirs() == (PROJECT / "results",)
    assert paths.records_dirs() == (PROJECT / "results" / "runs",)
    assert "toy/base" not in recipe_files()
    assert "toy" not in paths.published_files()
    assert "mine" not in paths.cluster_files()


def test_a_folder_below_a_project_is_none_and_is_told_so(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(bare / "repro.yaml", "")
    assert "is a project" not in call("list", "reformer").err
    write(bare / "deep" / "er" / "notes.txt", "")
    monkeypatch.chdir(bare / "deep" / "er")
    assert (
        f"{bare} is a project, but not the working folder: call repro there" in call("list", "reformer").err
    )
    monkeypatch.setattr(paths, "PROJECT", bare / "deep")
    assert paths.project_above() is None, "in a checkout"


def test_a_working_folder_with_a_project_file_is_a_project_of_its_own(bare: Path) -> None:
    write(bare / "repro.yaml", "")
    write(bare / "configs" / "toy" / "base.yaml", "title: mine\n")
    assert paths.configs_dirs() == (bare / "configs", PROJECT / "configs")
    assert {"toy/base", "reformer/duplication"} <= set(recipe_files())
    assert (paths.results_dir(), paths.trials_dir()) == (bare / "results", bare / "results")
    assert "reformer" in paths.published_files()


def test_trials_of_a_checkout_are_apart_unless_its_results_are_named(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert paths.trials_dir() == PROJECT / "results" / "own"
    assert paths.all_records_dirs() == (PROJECT / "results" / "runs", PROJECT / "results" / "own" / "runs")
    monkeypatch.setenv("REPRO_RESULTS", str(bare))
    assert paths.trials_dir() == bare
    assert paths.all_records_dirs() == (bare / "runs",)
    monkeypatch.setenv("REPRO_TRIALS", str(bare / "trials"))
    assert paths.trials_dir() == bare / "trials"


def test_variables_replace_the_folders_of_a_checkout(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIGS", "RESULTS", "CLUSTERS", "DATA", "RUNS"):
        monkeypatch.setenv(f"REPRO_{name}", str(bare / name))
    write(bare / "CLUSTERS" / "mine.yaml", "gpus_per_node: 0\n")
    (bare / "CONFIGS").mkdir()
    assert paths.configs_dirs() == (bare / "CONFIGS",)
    assert paths.results_dirs() == (bare / "RESULTS",)
    assert list(paths.cluster_files()) == ["mine"]
    assert (paths.data_dir(), paths.runs_dir()) == (bare / "DATA", bare / "RUNS")


def test_a_folder_of_recipes_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", "/nowhere")
    with pytest.raises(UserError, match="REPRO_CONFIGS=/nowhere: there is no such folder"):
        paths.configs_dirs()


def test_published_numbers_are_the_suites_where_the_results_have_none(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_RESULTS", str(bare))
    assert "reformer" in paper_keys()
    write(bare / "published" / "toy.yaml", "")
    assert paper_keys() == ("toy",)


def test_of_a_wheel_the_working_folder_is_written_to(carried: Path, bare: Path) -> None:
    assert paths.configs_dir() == bare / "configs"
    assert paths.results_dir() == bare / "results"
    assert paths.results_dirs() == (bare / "results", carried / "results")


def test_variables_name_the_projects_folders_and_the_wheel_adds_its_own(
    carried: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_RESULTS", str(bare / "elsewhere"))
    assert paths.results_dirs() == (bare / "elsewhere", carried / "results")
    assert paths.results_dir() == bare / "elsewhere"


def test_own_recipes_come_before_those_of_the_wheel_and_add_to_them(carried: Path, bare: Path) -> None:
    assert load_recipe("toy/base", "cpu").config["title"] == "carried"
    own = [
        write(bare / "configs" / name, f"title: own {name}\n") for name in ("toy/base.yaml", "mine/new.yaml")
    ]
    recipe.forget_files()
    assert recipe_files() == {
        "mine/new": own[1],
        "toy/base": own[0],
        "toy/other": carried / "configs" / "toy" / "other.yaml",
    }
    assert load_recipe("toy/base").config["title"] == "own toy/base.yaml"
    assert scales_of("toy/base") == ("paper",)


def test_own_profiles_come_first(carried: Path, bare: Path) -> None:
    assert load_profile("site").nodes == 1
    write(bare / "slurm" / "clusters" / "site.yaml", "gpus_per_node: 0\nnodes: 2\n")
    write(bare / "slurm" / "clusters" / "mine.yaml", "gpus_per_node: 0\n")
    assert load_profile("site").nodes == 2
    assert list(paths.cluster_files()) == ["mine", "site"]


def test_own_published_numbers_add_to_those_of_the_wheel(carried: Path, bare: Path) -> None:
    for name in ("results/published/a.yaml", "results/published/b.yaml"):
        write(carried.joinpath(name), "")
    own = write(bare / "results" / "published" / "b.yaml", "")
    assert paths.published_files() == {"a": carried / "results" / "published" / "a.yaml", "b": own}


def test_a_record_in_two_folders_counts_once_and_each_ledger_withdraws(tmp_path: Path) -> None:
    there = sorted((PROJECT / "results" / "runs" / "reformer").rglob("*.json"))[:2]
    names = [path.relative_to(PROJECT / "results" / "runs").as_posix() for path in there]
    first, second = tmp_path / "first", tmp_path / "second"
    write(first / names[0], there[0].read_text(encoding="utf-8"))
    for path, name in zip(there, names, strict=True):
        write(second / name, path.read_text(encoding="utf-8"))
    records = read_records(first, second).good
    assert [record.stored_at for record in records] == names
    (alone,) = read_records((first / names[0]).parent).good
    assert (alone.stored_at, records[0].stored_at) == (Path(names[0]).name, names[0])
    write(first / "LEDGER.tsv", f"time\twithdrawn\t{names[1]}\tx\ty\n")
    write(second / "LEDGER.tsv", f"time\twithdrawn\t{names[0]}\tx\ty\n")
    assert withdrawn(first, second) == frozenset(names)


def test_an_outcome_in_two_folders_counts_once(tmp_path: Path) -> None:
    """An installed wheel is used in a checkout."""
    for name in ("first", "second"):
        (tmp_path / name / "runs").mkdir(parents=True)
        shutil.copy(PROJECT / "results" / "runs" / "VERIFIED.tsv", tmp_path / name / "runs")
    kept = read_verified(PROJECT / "results")
    assert kept
    assert read_verified(tmp_path / "first", tmp_path / "second") == kept


def test_files_are_in_the_order_of_their_paths_not_of_their_letters(tmp_path: Path) -> None:
    """``base`` comes before ``base-en-fr``, as in a sorted listing of folders."""
    for name in ("base-en-fr/a.json", "base/b.json"):
        write(tmp_path / name, "")
    assert list(paths.files_in([tmp_path], "**/*.json")) == ["base/b.json", "base-en-fr/a.json"]


def test_a_wheel_does_not_verify(carried: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repro.cli.verify.INSTALLED", True)
    output = call("verify", "toy/base")
    assert output.code == 2
    assert "call `repro verify` in a git clone" in output.err


def test_init_makes_a_project(carried: Path, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repro.cli.start.SHARED", PROJECT)
    output = call("init", "mine")
    assert (output.code, output.err) == (0, "")
    made = sorted(path.relative_to(bare).as_posix() for path in (bare / "mine").rglob("*") if path.is_file())
    assert made == [
        "mine/.gitignore",
        "mine/README.md",
        "mine/configs/mine/duplication.yaml",
        "mine/repro.yaml",
        "mine/slurm/clusters/my-cluster.yaml",
    ]
    assert sorted(output.out.split()) == made
    monkeypatch.chdir("mine")
    assert load_profile("my-cluster").name == "my-cluster"


def test_init_replaces_no_file_and_leaves_nothing_behind(bare: Path) -> None:
    write(bare / "mine" / "README.md", "mine\n")
    output = call("init", "mine")
    assert output.code == 2
    assert "mine/README.md exists" in output.err
    assert [path.name for path in (bare / "mine").iterdir()] == ["README.md"]


def test_a_folder_made_beside_a_checkout_is_a_project_while_it_is_the_working_folder(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = call("init", "mine")
    assert (output.code, output.err) == (0, "")
    assert paths.project() == PROJECT
    monkeypatch.chdir("mine")
    assert paths.project() == bare / "mine"


def test_init_names_a_folder_that_cannot_be_made(bare: Path) -> None:
    write(bare / "file", "")
    output = call("init", "file")
    assert output.code == 2
    assert "file" in output.err
