"""Stores: whole or absent, opened cheaply, every kind of damage named with its remedy."""

import errno
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from repro.data import store as store_module
from repro.data.data_set import Options, given_variant, subword_options
from repro.data.prepare import open_store, prepare
from repro.data.registry import DATA_SETS
from repro.data.store import MANIFEST, Manifest, StoreWriter, make_store, variants, verify
from repro.data.table import DATA_FILE
from repro.data.tokenizers.loading import load_tokenizer
from repro.errors import ReproError, UserError

NAME, VARIANT = "numbers-en-de", "bpe300-n300"
REMEDY = "`repro data prepare numbers-en-de --vocab-size 300 --size 300`"


def test_a_store_gives_back_text_and_tokens(numbers_store: Path) -> None:
    store = open_store(NAME, VARIANT)
    tokenizer = load_tokenizer(store.tokenizer_path)
    assert store.splits == ["test", "train", "val"]
    for part in ("en", "de"):
        lines, tokens, offsets = (get("train", part) for get in (store.lines, store.values, store.offsets))
        counts = store.manifest.counts["train"]
        assert len(lines) == 300 == counts["examples"]
        assert len(tokens) == offsets[-1] == counts["tokens"][part]
        for i in range(300):
            assert tokenizer.decode(tokens[offsets[i] : offsets[i + 1]].tolist()) == lines[i]
    assert tokens.dtype == np.dtype("<u2")
    assert not tokens.flags.writeable
    verify(store)


def test_the_manifest_tells_what_it_should_and_nothing_private(numbers_store: Path) -> None:
    store = open_store(NAME, VARIANT)
    messages = json.loads((numbers_store / MANIFEST).read_text(encoding="utf-8"))
    assert messages["tokenizer"] == {
        "kind": "byte-bpe", "size": 300, "file": "tokenizer.json",
        "sha256": load_tokenizer(store.tokenizer_path).sha256,
    }  # fmt: skip
    files = {p.relative_to(numbers_store).as_posix() for p in numbers_store.rglob("*") if p.is_file()}
    assert set(messages["files"]) == files - {MANIFEST}
    raw = "".join(f"{line}\n" for line in store.lines("val", "de")).encode()
    assert messages["columns"]["val"]["de_text"] == {"rows": 500, "sha256": hashlib.sha256(raw).hexdigest()}
    assert messages["licence"].startswith("MIT")
    assert str(numbers_store.parents[2]) not in json.dumps(messages)
    assert len(store.manifest_sha256) == 64


def test_the_same_store_is_made_twice(
    numbers_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (numbers_store / MANIFEST).read_bytes()
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "elsewhere"))
    again = prepare(NAME, vocab_size=300, size=300, report=lambda line: None)
    assert again.parents[1] == tmp_path / "elsewhere"
    assert (again / MANIFEST).read_bytes() == first


def test_a_missing_store_names_the_command(data_folder: Path) -> None:
    with pytest.raises(UserError, match="`repro data prepare multi30k --vocab-size 8000`"):
        open_store("multi30k", "bpe8000")
    with pytest.raises(UserError, match="`repro data prepare multi30k --tokenizer FILE`"):
        open_store("multi30k", "sp8000-12345678")


def truncate(store: Path) -> None:
    path = store / "train" / DATA_FILE
    path.write_bytes(path.read_bytes()[:-2])


def delete(store: Path) -> None:
    (store / "val" / DATA_FILE).unlink()


def cut_manifest(store: Path) -> None:
    path = store / MANIFEST
    path.write_bytes(path.read_bytes()[:300])


def edit_manifest(store: Path) -> None:
    path = store / MANIFEST
    path.write_text(
        path.read_text(encoding="utf-8").replace('"examples": 300', '"examples": 301'), encoding="utf-8"
    )


def other_schema(store: Path) -> None:
    path = store / MANIFEST
    path.write_text(path.read_text(encoding="utf-8").replace('"schema_version": 2', '"schema_version": 9'))


def older_schema(store: Path) -> None:
    path = store / MANIFEST
    path.write_text(path.read_text(encoding="utf-8").replace('"schema_version": 2', '"schema_version": 1'))


def no_manifest(store: Path) -> None:
    (store / MANIFEST).unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, f"train/{DATA_FILE} has"),
        (delete, f"val/{DATA_FILE} has None bytes"),
        (cut_manifest, "manifest.json is not JSON"),
        (edit_manifest, "manifest.json was changed"),
        (other_schema, "another version made it: schema_version is 9"),
        (older_schema, "another version made it: schema_version is 1"),
        (no_manifest, "manifest.json: No such file"),
    ],
)
def test_opening_notices_damage_and_prepare_mends_it(
    numbers_store: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(numbers_store)
    with pytest.raises(UserError) as caught:
        open_store(NAME, VARIANT)
    assert message in str(caught.value)
    assert REMEDY in str(caught.value)
    assert "\n" not in str(caught.value)
    assert prepare(NAME, vocab_size=300, size=300, report=lambda line: None) == numbers_store
    verify(open_store(NAME, VARIANT))
    assert [p.name for p in numbers_store.parent.iterdir()] == [VARIANT]


def test_verify_notices_one_changed_byte(numbers_store: Path) -> None:
    path = numbers_store / "test" / DATA_FILE
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    store = open_store(NAME, VARIANT)  # sizes are right
    with pytest.raises(UserError, match="sha256 of test/data-00000") as caught:
        verify(store)
    assert REMEDY in str(caught.value)


def test_two_processes_at_once_make_one_store(data_folder: Path) -> None:
    code = (
        "import sys; sys.stdin.readline(); from repro.data.prepare import prepare; "
        "prepare('numbers-en-de', vocab_size=280, size=400)"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    output = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], output
    verify(open_store(NAME, "bpe280-n400"))
    assert [p.name for p in (data_folder / NAME).iterdir()] == ["bpe280-n400"]


def test_the_second_to_finish_keeps_the_first_ones_store(numbers_store: Path) -> None:
    inode = numbers_store.stat().st_ino

    def fill(writer: StoreWriter) -> Manifest:
        writer.text("a", "en").add_line("late")
        return open_store(NAME, VARIANT).manifest

    assert make_store(NAME, VARIANT, fill, is_good=lambda: True) == numbers_store
    assert numbers_store.stat().st_ino == inode
    verify(open_store(NAME, VARIANT))


def test_one_of_two_that_replace_a_bad_store_is_kept(
    numbers_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    shutil.copytree(numbers_store, theirs)
    remove, answers = shutil.rmtree, iter([False, True])

    def removed(path: Path, **options: bool) -> None:
        remove(path, **options)
        if path == numbers_store:  # before ours comes there
            shutil.copytree(theirs, path)

    def fill(writer: StoreWriter) -> Manifest:
        writer.text("a", "en").add_line("ours")
        return Manifest.from_json((theirs / MANIFEST).read_bytes())

    monkeypatch.setattr(store_module.shutil, "rmtree", removed)
    assert make_store(NAME, VARIANT, fill, is_good=lambda: next(answers)) == numbers_store
    verify(open_store(NAME, VARIANT))


def test_a_failure_leaves_nothing_behind(data_folder: Path) -> None:
    def fill(writer: StoreWriter) -> Manifest:
        writer.text("a", "en").add_line("half")
        raise ReproError("interrupted")

    with pytest.raises(ReproError, match="interrupted"):
        make_store(NAME, VARIANT, fill, is_good=lambda: False)
    assert not (data_folder / NAME).exists()
    assert variants(NAME) == []


def test_a_data_folder_that_cannot_be_made(data_folder: Path) -> None:
    data_folder.write_text("a file stands here")
    with pytest.raises(UserError, match=r"cannot write .*numbers-en-de: .*; make the folder writable"):
        prepare(NAME, vocab_size=300, size=300)


def test_unknown_names_are_named(numbers_store: Path) -> None:
    store = open_store(NAME, VARIANT)
    with pytest.raises(UserError, match=r"'dev'.*test, train, val"):
        store.lines("dev", "en")
    with pytest.raises(UserError, match=r"no 'fr'.*en, de"):
        store.values("train", "fr")


def test_names_of_variants_and_their_commands() -> None:
    assert subword_options("bpe8000") == Options(vocab_size=8000)
    assert subword_options("bpe512-n17200") == Options(vocab_size=512, size=17_200)
    assert given_variant("sentencepiece", 16_000, "1a2b3c4d5e") == "sp16000-1a2b3c4d"
    assert subword_options("sp16000-1a2b3c4d") == Options(tokenizer=Path("FILE"))
    assert subword_options("words") is None
    assert DATA_SETS["multi30k"].command("bpe8000") == "repro data prepare multi30k --vocab-size 8000"
    assert DATA_SETS["wikitext-2"].command("bytes") == "repro data prepare wikitext-2 --level bytes"
    assert (
        DATA_SETS["enwik8"].command("bytes-nonl") == "repro data prepare enwik8 --level bytes-nonl --from DIR"
    )
    assert DATA_SETS["books"].command("bpe29000") == "repro data prepare books --vocab-size 29000 --from DIR"


def test_a_table_that_cannot_be_read_is_named_with_the_command(numbers_store: Path) -> None:
    path = numbers_store / "val" / DATA_FILE
    store = open_store(NAME, VARIANT)
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(UserError, match=r"cannot be used: val/data-.* is not a readable table") as caught:
        store.values("val", "en")
    assert REMEDY in str(caught.value)


def test_a_full_disk_leaves_nothing_behind(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path, columns: object) -> list[Path]:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module, "write_table", full)
    with pytest.raises(ReproError, match="no space left"):
        prepare(NAME, vocab_size=300, size=300, report=lambda line: None)
    assert not (data_folder / NAME).exists()
