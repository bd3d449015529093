"""Stores of pretrained weights: from files and from the hub (a stand-in), every refusal, and opening them again."""

import dataclasses
import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from repro.data import registry
from repro.data.data_set import Hub
from repro.data.prepare import list_sources, open_store, prepare, verify
from repro.data.sets.weights.weight_data import open_weights
from repro.errors import UserError
from tests.official_weights import TINY, official, save, shrink
from tests.workshop import call

FILE = "model.safetensors"


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch, data_folder: Path) -> None:
    shrink(monkeypatch)


def quiet(line: str) -> None:
    pass


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", TINY)
def test_a_file_becomes_a_store_as_it_is(tmp_path: Path, data_folder: Path, name: str) -> None:
    folder = save(tmp_path / "given", official(name))
    output: list[str] = []
    path = prepare(name, folder, report=output.append)
    assert path == data_folder / name / "weights"
    assert (path / FILE).read_bytes() == (folder / FILE).read_bytes()
    manifest = open_store(name, "weights").manifest
    assert manifest.source == {
        "kind": "files", "id": manifest.source["id"], "revision": None, "sha256": digest(folder / FILE),
    }  # fmt: skip
    assert manifest.files[FILE]["sha256"] == digest(folder / FILE)
    tensors = official(name)
    assert manifest.counts["weights"]["examples"] == len(tensors)
    assert manifest.counts["weights"]["parameters"] == sum(tensor.numel() for tensor in tensors.values())
    assert output == [f"made {name}/weights: weights {len(tensors)}"]
    assert verify(name) == ["weights"]
    assert prepare(name, report=output.append) == path
    assert output[1].startswith("kept ")


def test_opened_weights_are_those_of_the_file(tmp_path: Path) -> None:
    given = official("gpt2")
    prepare("gpt2", save(tmp_path, given), report=quiet)
    result = open_weights("gpt2")
    assert result.tensors.keys() == given.keys()
    assert all(torch.equal(result.tensors[key], value) for key, value in given.items())
    assert (result.family, result.n_heads, result.revision) == ("gpt2", TINY["gpt2"].n_heads, None)
    assert result.sha256 == digest(tmp_path / FILE)


@pytest.mark.parametrize("size", [0, 5, 300, -1])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, data_folder: Path, size: int) -> None:
    content = (save(tmp_path, official("gpt2")) / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(content[:size])
    with pytest.raises(UserError, match=r"model\.safetensors"):
        prepare("gpt2", tmp_path, report=quiet)
    assert not list(data_folder.glob("*/*"))


def test_a_folder_without_the_file_and_other_content_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="no such folder"):
        prepare("gpt2", tmp_path / "nowhere", report=quiet)
    with pytest.raises(
        UserError, match=r"model\.safetensors is not a complete file of weights .*No such file"
    ):
        prepare("gpt2", tmp_path, report=quiet)
    with pytest.raises(UserError, match=r"gpt2.*--vocab-size 9"):
        prepare("gpt2", tmp_path, vocab_size=9, report=quiet)
    save(tmp_path, official("gpt2"))
    pinned = dataclasses.replace(registry.DATA_SETS["gpt2"], sha256={FILE: "ab" * 32})
    monkeypatch.setitem(registry.DATA_SETS, "gpt2", pinned)
    with pytest.raises(UserError, match=r"gpt2.*abababababababab…"):
        prepare("gpt2", tmp_path, report=quiet)
    pinned = dataclasses.replace(pinned, sha256={FILE: digest(tmp_path / FILE)})
    monkeypatch.setitem(registry.DATA_SETS, "gpt2", pinned)
    prepare("gpt2", tmp_path, report=quiet)


def hub(monkeypatch: pytest.MonkeyPatch, found: Any) -> list[tuple[str, str, str | None]]:
    """Puts a stand-in for ``huggingface_hub`` in place; returns the calls it gets."""
    calls: list[tuple[str, str, str | None]] = []

    def hf_hub_download(repo_id: str, filename: str, revision: str | None = None) -> str:
        calls.append((repo_id, filename, revision))
        if isinstance(found, Exception):
            raise found
        return str(found)

    module = ModuleType("huggingface_hub")
    module.hf_hub_download = hf_hub_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return calls


@pytest.mark.parametrize("pin", [None, "cd" * 20])
def test_the_hub_becomes_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pin: str | None) -> None:
    snapshot = save(tmp_path / "snapshots" / ("a1" * 20), official("gpt2"))
    calls = hub(monkeypatch, snapshot / FILE)
    pinned = dataclasses.replace(registry.DATA_SETS["gpt2"], hub=Hub("openai-community/gpt2", revision=pin))
    monkeypatch.setitem(registry.DATA_SETS, "gpt2", pinned)
    prepare("gpt2", report=quiet)
    assert calls == [("openai-community/gpt2", FILE, pin)]
    assert open_store("gpt2", "weights").manifest.source == {
        "kind": "hub",
        "id": "openai-community/gpt2",
        "revision": pin or "a1" * 20,  # which came is recorded, though none was asked for
        "sha256": digest(snapshot / FILE),
    }
    assert open_weights("gpt2").revision == (pin or "a1" * 20)
    assert (snapshot / FILE).is_file()


def test_a_hub_out_of_reach_names_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    hub(monkeypatch, OSError("We couldn't connect\nand a long story"))
    with pytest.raises(UserError, match=r"repro data prepare gpt2 --from DIR") as caught:
        prepare("gpt2", report=quiet)
    assert "\n" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"huggingface_hub.*--from DIR"):
        prepare("gpt2", report=quiet)


def test_weights_that_are_not_there_or_damaged_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"`repro data prepare gpt2`$"):
        open_weights("gpt2")
    path = prepare("gpt2", save(tmp_path, official("gpt2")), report=quiet) / FILE
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"used: sha256 of model\.safetensors.*`repro data prepare gpt2`"):
        open_weights("gpt2")
    path.write_bytes(content[:-1])
    with pytest.raises(UserError, match=r"model\.safetensors has.*`repro data prepare gpt2`"):
        open_weights("gpt2")


def test_names_of_weights() -> None:
    with pytest.raises(UserError, match="'gtp2'; nearest: gpt2"):
        open_weights("gtp2")
    with pytest.raises(UserError, match=r"multi30k.*gpt2, gpt2-medium"):
        open_weights("multi30k")
    messages = {one["name"]: one for one in list_sources()}
    assert (messages["gpt2"]["levels"], messages["gpt2"]["obtained"]) == (("weights",), "hub or --from")


def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    folder = save(tmp_path, official("bert-base-uncased"))
    call("data", "prepare", "gpt2", "--from", str(tmp_path / "none")).refused("no such folder")
    assert call("data", "prepare", "bert-base-uncased", "--from", str(folder)).code == 0
    listed = {row["name"]: row for row in call("data", "list", "--json").json()}
    assert listed["bert-base-uncased"]["stores"] == ["weights"]
    assert load_file(folder / FILE).keys() == open_weights("bert-base-uncased").tensors.keys()
