"""Plugins of a project: what they may be, and that nothing else is imported."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro.code import plugins
from repro.errors import UserError
from repro.experiment.facts import versions
from repro.launch.slurm.snapshot import read_sources
from tests.workshop import call

MIX = """
import os
from pathlib import Path as Elsewhere
from repro.nn import FullAttention

class Mine(FullAttention):
    \"\"\"Full attention under another name.\"\"\"

class Leaky(FullAttention):
    def forward(self, x, state, layout):
        return super().forward(x + x.mean(1, keepdim=True), state, layout)

class Untyped(FullAttention):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)

class Lookup(FullAttention):
    def forward(self, x, state, layout):
        return {}["key"]

class Divides(FullAttention):
    def forward(self, x, state, layout):
        return 1 / 0

def loop(mixer, x, causal, lengths, past):
    return FullAttention.forward(mixer, x, None, plugins_layout(x.shape[1])).y

def plugins_layout(steps):
    import torch
    from repro.nn import Layout
    return Layout(True, positions=torch.arange(steps))
"""


@pytest.fixture
def project(tmp_path: Path, small_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("CONFIGS", "RESULTS", "RUNS", "TRIALS"):
        monkeypatch.delenv(f"REPRO_{name}", raising=False)
    monkeypatch.setenv("REPRO_DATA", str(small_store))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "repro.yaml").write_text("plugins: [mymix43]\n")
    (tmp_path / "mymix43.py").write_text(MIX)
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before
    sys.modules.pop("mymix43", None)
    plugins._imported.cache_clear()


def test_a_class_of_a_plugin_trains_by_its_bare_name_and_is_hashed(project: Path) -> None:
    heads = ("--init", "{n_heads: 3}")
    assert "all laws hold" in call("check", "Mine", *heads, "--loop", "mymix43.loop").out
    assert "all laws hold; not checked: III (needs --loop)" in call("check", "Mine", *heads).out
    lstm = call("check", "repro.nn.BidirectionalLSTM").out
    assert "all laws hold; not checked: I to III (it refuses causal layouts)" in lstm
    hashed = plugins.hashes()
    assert versions()["plugin mymix43"] == f"sha256:{hashed['mymix43']}"
    (project / "mymix43.py").write_text(MIX + "# changed\n")
    assert plugins.hashes() != hashed
    mixers = "[{class_path: Mine, init_args: {n_heads: 2}}]"
    said = call(
        "run", "transformer-xl/ablation@xl", "--scale", "cpu", "--smoke", "--model.net.blocks.mixers", mixers
    )
    assert said.code == 0, said.err
    files, _ = read_sources()
    assert {"repro.yaml", "mymix43.py"} <= files.keys()


def test_a_mixer_that_breaks_a_law_is_named(project: Path) -> None:
    said = call("check", "mymix43.Leaky", "--init", "{n_heads: 3}")
    assert said.code == 1
    assert "FAIL" in said.out
    assert "II: token 6 changes no output before it" in "".join(
        x for x in said.out.splitlines(True) if "FAIL" in x
    )
    call("check", "Mine").refused("breaks the contract", "n_heads")
    call("check", "Lookup", "--init", "{n_heads: 3}").refused("breaks the contract", "KeyError")
    call("check", "Divides", "--init", "{n_heads: 3}").refused("breaks the contract", "ZeroDivisionError")
    call("check", "os.system").refused("os.system", "name a plugin of your own in repro.yaml")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("mymix43.os.system", "not in the plugin"),
        ("mymix43.Elsewhere", "defined in pathlib"),
        ("other43.Mine", "not allowed"),
        ("Nosuch", "Nosuch"),
        ("Untyped", "n_heads of mymix43.Untyped.__init__ has no type"),
    ],
)
def test_what_is_not_a_plugins_own_is_refused(project: Path, path: str, words: str) -> None:
    (project / "other43.py").write_text("raise SystemExit('imported')\n")
    mixers = f"[{{class_path: {path}, init_args: {{n_heads: 2}}}}]"
    call(
        "params", "transformer-xl/ablation@xl", "--scale", "cpu", "--model.net.blocks.mixers", mixers
    ).refused(words)
    assert "other43" not in sys.modules


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("plugins: mymix43", "write `plugins: \\[mymix\\]`"),
        ("plugin: [mymix43]", "write `plugins"),
        ("plugins: [../x]", "write `plugins"),
        ("plugins: [nosuch43]", "neither nosuch43.py nor nosuch43/__init__.py"),
        ("plugins: [numpy]", "'numpy' is the name of another package"),
        ("plugins: [random]", "'random' is the name of another package"),
        ("plugins: [repro]", "'repro' is the name of another package"),
        ("plugins: [tabulate]", "'tabulate' is the name of another package"),
    ],
)
def test_bad_project_files_are_refused_and_nothing_is_imported(project: Path, text: str, words: str) -> None:
    (project / "repro.yaml").write_text(text)
    for name in ("numpy", "random", "tabulate"):
        (project / f"{name}.py").write_text("raise SystemExit('shadowed')\n")
    with pytest.raises(UserError, match=words):
        plugins.load_plugins()


def test_a_snapshot_behind_a_link_keeps_its_plugin(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = project.with_name("code")
    link.symlink_to(project)
    monkeypatch.syspath_prepend(str(link))
    assert [path.name for path in plugins.plugin_files()["mymix43"]] == ["mymix43.py"]


def test_a_plugin_that_fails_is_named(project: Path) -> None:
    (project / "mymix43.py").write_text("1 / 0\n")
    with pytest.raises(UserError, match="plugin mymix43 cannot be imported: ZeroDivisionError"):
        plugins.load_plugins()


def test_a_finished_run_says_that_its_plugin_has_changed(project: Path) -> None:
    words = "run transformer-xl/ablation@xl --scale cpu --seed 100 --trainer.max_steps 2 --trainer.val_check_interval 2"
    command = [*words.split(), "--checkpoints.every_steps", "2", "--model.schedule.warmup_steps", "1"]
    assert call(*command).code == 0
    (project / "later43.py").write_text("")
    (project / "repro.yaml").write_text("plugins: [mymix43, later43]\n")
    assert "has changed" not in call(*command).err
    (project / "mymix43.py").write_text(MIX + "# changed\n")
    said = call(*command)
    assert "is done" in said.out
    assert "plugin mymix43 has changed since" in said.err


def test_a_plugin_that_ends_python_is_named(project: Path) -> None:
    (project / "mymix44.py").write_text("import sys\nsys.exit(3)\n")
    (project / "repro.yaml").write_text("plugins: [mymix44]\n")
    call("params", "transformer-xl/ablation@xl", "--scale", "cpu").refused("plugin mymix44", "SystemExit: 3")
