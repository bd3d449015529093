"""Data sets of one's own: pairs, text and pictures from a folder."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from repro.data import LabelledData, TranslationData, registry
from repro.data.own import FILE, PATTERNS, own_data_sets
from repro.data.prepare import list_sources, open_store, prepare, verify
from repro.data.registry import find_data_set
from repro.data.sets.images.picture_data import PatchData
from repro.errors import UserError

SPLITS = {"train": 40, "valid": 3, "test": 2}


@pytest.fixture
def raw(tmp_path: Path, data_folder: Path) -> Path:
    """Files of each kind, in a folder each."""
    for split, n in SPLITS.items():
        for name in (f"pairs/{split}.nl", f"pairs/{split}.fy", f"text/{split}.txt"):
            path = tmp_path / "raw" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"line {i % 2} of some\n" for i in range(n)))
    for split, level in (("train", 9), ("test", 3)):
        for name in ("b", "a"):
            folder = tmp_path / "raw" / "pictures" / split / name
            folder.mkdir(parents=True)
            for i in range(level):
                Image.fromarray(np.full((4, 6), ord(name) + i, np.uint8)).save(folder / f"{i}.png")
    (tmp_path / "raw" / "labels").mkdir()
    for split in ("train", "val", "test"):
        lines = [f"{'odd' if i % 2 else 'even'}\tnumber {i}\n" for i in range(SPLITS.get(split, 5))]
        (tmp_path / "raw" / "labels" / f"{split}.tsv").write_text("".join(lines))
    shutil.copytree(tmp_path / "raw" / "pairs", tmp_path / "raw" / "few")
    return tmp_path / "raw"


def made(kind: str, raw: Path, **options: object) -> str:
    path = prepare(f"my-{kind}", from_dir=raw / kind, kind=kind, report=lambda _: None, **options)  # type: ignore[arg-type]
    return "/".join(path.parts[-2:])


def test_pairs_train_by_their_languages(raw: Path) -> None:
    store = made("pairs", raw, vocab_size=270)
    data = TranslationData(store, 270, 100, source_language="nl", target_language="fy")
    data.prepare_data()
    data.setup()
    assert data.counts["train"]["examples"] == SPLITS["train"]
    assert open_store("my-pairs", "bpe270").manifest.parts == ["fy", "nl"]


@pytest.mark.parametrize("level", ["bytes", "chars", "words"])
def test_text_has_the_levels_of_texts(raw: Path, level: str) -> None:
    name, variant = made("text", raw, level=level).split("/")
    assert variant == level
    assert open_store(name, variant).manifest.counts["val"]["tokens"]["text"] > 0


def test_pictures_are_numbered_by_the_names_of_their_classes(raw: Path) -> None:
    data = PatchData(batch_size=4, store=made("pictures", raw).split("/")[0], patch=2)
    data.prepare_data()
    assert (data.n_classes, data.picture_set.shape) == (2, (4, 6, 1))
    store = open_store("my-pictures", "pixels")
    assert store.values("train", "labels").tolist() == [0] * 9 + [1] * 9
    assert store.values("test", "images")[0, 0, 0, 0] == ord("a")


def test_labelled_text_is_bytes_and_the_number_of_its_label(raw: Path) -> None:
    data = LabelledData(batch_size=4, store=made("labels", raw).split("/")[0], max_length=8)
    data.prepare_data()
    assert (data.n_classes, data.counts["train"]) == (
        2,
        {"examples": 40, "targets": 40, "dropped": 0, "cut": 30},
    )
    examples = data.reader("train")(np.array([1, 10]), None)
    assert examples.targets.tolist() == [[1], [0]], "even comes before odd"
    assert examples.lengths is not None
    assert examples.lengths.tolist() == [8, 8]
    assert bytes(examples.inputs[0] - 1) == b"number 1"


@pytest.mark.parametrize(
    ("split", "text", "message"),
    [
        ("train", "odd\tone\n", "1 labels; a classifier needs two"),
        ("train", "odd\tone\nno label\n", "train.tsv, line 2: 'no label' is not a label, a tab and a text"),
        ("val", "big\tone\n", "val.tsv: label 'big' does not occur in train.tsv"),
        ("test", "", "test.tsv is empty"),
    ],
)
def test_labels_that_are_none_are_refused(raw: Path, split: str, text: str, message: str) -> None:
    (raw / "labels" / f"{split}.tsv").write_text(text)
    with pytest.raises(UserError, match=message):
        made("labels", raw)


@pytest.mark.parametrize("kind", PATTERNS)
def test_later_commands_know_it(raw: Path, kind: str) -> None:
    more = {"vocab_size": 270} if kind == "pairs" else {}
    name, variant = made(kind, raw, **more).split("/")
    assert verify(name) == [variant]
    assert name in [row["name"] for row in list_sources()]
    assert made(kind, raw, **more) == f"{name}/{variant}", "again"


@pytest.mark.parametrize(
    ("name", "kind", "files", "message"),
    [
        ("mine", "words", "text", "--kind words: it is one of pairs, text, labels, pictures"),
        ("../mine", "text", "text", "cannot name a data set"),
        ("mnist", "pictures", "pictures", "mnist is a data set already"),
        ("mine", "text", "none", "none: no such folder"),
        ("mine", "text", "", "--from DIR: no such folder"),
        ("mine", "pairs", "text", "two languages; there are: txt"),
        ("mine", "pairs", "pictures", "two languages; there are: none"),
        ("mine", "pictures", "text", "0 folders train/CLASS with pictures"),
        ("mine", "pairs", "few", "vocabulary size 8000 is too large"),
        ("my-text", "pairs", "pairs", "my-text was made of other files"),
    ],
)
def test_what_is_not_of_the_kind_is_refused_and_leaves_nothing(
    raw: Path, data_folder: Path, name: str, kind: str, files: str, message: str
) -> None:
    made("text", raw)
    with pytest.raises(UserError, match=message):
        prepare(name, from_dir=raw / files if files else None, kind=kind)
    assert list(own_data_sets()) == ["my-text"]
    assert [path.name for path in data_folder.iterdir()] == ["my-text"]


@pytest.mark.parametrize("content", ["no picture", "other size", "other class"])
def test_pictures_that_do_not_go_together_are_refused(raw: Path, content: str) -> None:
    folder = raw / "pictures" / "train" / "b"
    if content == "no picture":
        (folder / "z.png").write_text("text")
    elif content == "other size":
        Image.new("L", (6, 5)).save(folder / "z.png")
    else:
        (raw / "pictures" / "test" / "c").mkdir()
    with pytest.raises(
        UserError,
        match={"no picture": "z.png is not a picture", "other size": "make them one size"}.get(
            content, "class 'c' is not among those of train"
        ),
    ):
        made("pictures", raw)


def test_other_files_under_the_same_name_are_refused(raw: Path) -> None:
    made("text", raw)
    (raw / "text" / "train.txt").write_text("other words\n" * 9)
    with pytest.raises(UserError, match="made of other files"):
        made("text", raw, level="chars")


def test_a_byte_order_mark_and_carriage_returns_are_no_words(raw: Path) -> None:
    made("text", raw, level="words")
    before = open_store("my-text", "words").rows("train", "text", np.array([0]))
    ends = 0
    for path in (raw / "text").iterdir():
        ends += path.read_bytes().count(b"\n")
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\r\n"))
    said: list[str] = []
    prepare("windows", from_dir=raw / "text", kind="text", level="words", report=said.append)
    assert said[1:] == [f"removed from the files: 3 byte order marks, {ends} carriage returns at line ends"]
    after = open_store("windows", "words").rows("train", "text", np.array([0]))
    assert [list(row) for row in after] == [list(row) for row in before]


def test_hidden_files_are_counted(tmp_path: Path, data_folder: Path) -> None:
    for name in ("a.txt", "b.txt", "._a.txt"):
        (tmp_path / name).write_text("some words\n" * 40)
    said: list[str] = []
    prepare("books", from_dir=tmp_path, level="bytes", report=said.append)
    assert said[1:] == ["removed from the files: 1 hidden files"]


def test_a_damaged_description_is_named(raw: Path, data_folder: Path) -> None:
    made("text", raw)
    (data_folder / "my-text" / FILE).write_text("{}")
    with pytest.raises(UserError, match=r"data_set\.json is damaged"):
        find_data_set("my-text")
    assert find_data_set("mnist").name == "mnist", "others are not concerned"


@pytest.mark.parametrize(
    ("facts", "named"),
    [({"class": "text.text_sets.WholeText", "license": "x"}, "license"), ({"title": "x"}, "class")],
)
def test_an_entry_with_a_wrong_key_is_named(facts: dict[str, str], named: str) -> None:
    with pytest.raises(UserError, match=rf"data_sets\.yaml: letters: .*{named}"):
        registry._made("letters", facts)
