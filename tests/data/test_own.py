"""Data sets of one's own: pairs, text and pictures from a folder."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from repro.data import LabelledData, TranslationData, registry
from repro.data.own import FILE, PATTERNS, _pixels, own_data_sets
from repro.data.prepare import list_sources, open_store, prepare, verify
from repro.data.registry import find_data_set
from repro.data.sets.images.picture_data import PatchData
from repro.data.sets.text import text_sets
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


def test_pairs_without_text_are_left_out_and_counted(raw: Path) -> None:
    for part in ("nl", "fy"):
        path = raw / "pairs" / f"test.{part}"
        path.write_text(f"\n{path.read_text()} \n\n")
    said: list[str] = []
    prepare("mine", from_dir=raw / "pairs", kind="pairs", vocab_size=270, report=said.append)
    assert said[1:] == ["removed from the files: 3 pairs without text"]
    assert open_store("mine", "bpe270").manifest.counts["test"]["examples"] == SPLITS["test"]


@pytest.mark.parametrize("part", ["nl", "fy"])
def test_a_pair_without_text_on_one_side_is_refused(raw: Path, part: str) -> None:
    path = raw / "pairs" / f"valid.{part}"
    path.write_text("one\n \nthree\n")
    with pytest.raises(UserError, match=rf"{path}, line 2 has no text, the other side has; fill or delete"):
        made("pairs", raw, vocab_size=270)


def test_labels_may_end_with_an_empty_line(raw: Path) -> None:
    with (raw / "labels" / "test.tsv").open("a") as file:
        file.write("\n")
    assert open_store(*made("labels", raw).split("/")).manifest.counts["test"]["examples"] == 2


@pytest.mark.parametrize("level", ["bytes", "chars", "words"])
def test_text_has_the_levels_of_texts(raw: Path, level: str) -> None:
    name, variant = made("text", raw, level=level).split("/")
    assert variant == level
    assert open_store(name, variant).manifest.counts["val"]["tokens"]["text"] > 0


def test_characters_beyond_bytes(raw: Path) -> None:
    text = "a line — of some\n0 1\n"
    (raw / "text" / "train.txt").write_text(text, encoding="utf-8")
    store = open_store(*made("text", raw, level="chars").split("/"))
    alphabet = sorted(set(text))
    assert [alphabet[i] for i in store.values("test", "text")] == [*("line 0 of some\nline 1 of some\n")]


@pytest.mark.parametrize("piece", [1, 2**23])
@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("level", ["bpe", "chars", "words"])
def test_text_that_is_not_utf8_is_refused_by_file_and_line(
    raw: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch, level: str, split: str, piece: int
) -> None:
    monkeypatch.setattr(text_sets, "PIECE_BYTES", piece)
    path = raw / "text" / f"{split}.txt"
    path.write_bytes(path.read_bytes() + b"line 0 of caf\xe9s\n")
    more = {"vocab_size": 270} if level == "bpe" else {}
    with pytest.raises(
        UserError, match=rf"{path}, line {SPLITS[split] + 1} is not UTF-8 at byte 13; convert it"
    ):
        made("text", raw, level=level, **more)
    assert not list(data_folder.iterdir())
    assert made("text", raw, level="bytes") == "my-text/bytes", "bytes may be any"


@pytest.mark.parametrize("level", ["bpe", "bytes", "chars", "words"])
def test_an_empty_text_is_named(raw: Path, level: str) -> None:
    (raw / "text" / "train.txt").write_text("")
    with pytest.raises(UserError, match=rf"--from {raw / 'text'}: train is empty"):
        made("text", raw, level=level)


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
    examples = data.examples("train", np.array([1, 10]), None)
    assert examples.targets.tolist() == [[1], [0]], "even comes before odd"
    assert examples.lengths is not None
    assert examples.lengths.tolist() == [8, 8]
    assert bytes(examples.inputs[0] - 1) == b"number 1"


@pytest.mark.parametrize(
    ("split", "text", "message"),
    [
        ("train", "odd\tone\n", "1 labels, not 2 to 65536"),
        ("train", "".join(f"{n}\tone\n" for n in range(2**16 + 1)), "65537 labels, not 2 to 65536"),
        ("train", "odd\tone\nno label\n", "train.tsv, line 2: 'no label' is not a label, a tab and a text"),
        ("train", "odd\tone\n\n\n", "train.tsv, line 2: '' is not a label"),
        ("train", "odd\tone\n\neven\ttwo\n", "train.tsv, line 2: '' is not a label"),
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


def test_what_is_hidden_is_not_its_own(raw: Path) -> None:
    before = made("pictures", raw), made("text", raw, level="bytes")
    for name in ("pictures/train/.cache/0.png", "pictures/train/a/.cache/0.png", "text/.cache/train.txt"):
        (raw / name).parent.mkdir(exist_ok=True)
        (raw / name).write_text("another")
    assert (made("pictures", raw), made("text", raw, level="bytes")) == before
    (raw / "pictures" / "train" / "c").mkdir()
    with pytest.raises(UserError, match="no picture in train/c; remove the folder"):
        prepare("other", from_dir=raw / "pictures", kind="pictures")


def test_a_store_without_its_description_gets_it(raw: Path, data_folder: Path) -> None:
    made("text", raw, level="bytes")
    (data_folder / "my-text" / FILE).unlink()  # an interruption before it was written
    made("text", raw, level="bytes")
    assert find_data_set("my-text").name == "my-text"


@pytest.mark.parametrize("content", ["no picture", "damaged", "other size", "other class"])
def test_pictures_that_do_not_go_together_are_refused(raw: Path, content: str) -> None:
    folder = raw / "pictures" / "train" / "b"
    if content == "no picture":
        (folder / "z.png").write_text("text")
    elif content == "damaged":
        (folder / "z.png").write_bytes((folder / "0.png").read_bytes().replace(b"IDAT", b"I\0AT"))
    elif content == "other size":
        Image.new("L", (6, 5)).save(folder / "z.png")
    else:
        (raw / "pictures" / "test" / "c").mkdir()
    with pytest.raises(
        UserError,
        match={
            "no picture": "z.png is not a picture",
            "damaged": "z.png is not a picture",
            "other size": "make all of one size",
        }.get(content, "class 'c' is not among those of train"),
    ):
        made("pictures", raw)


@pytest.mark.parametrize("which", ["a/0.png", "b/5.png"])
def test_pictures_with_more_than_bytes_are_refused(raw: Path, which: str) -> None:
    path = raw / "pictures" / "train" / which
    Image.fromarray(np.full((4, 6), 40_000, np.uint16)).save(path)
    with pytest.raises(UserError, match=rf"{path} has mode I(;16)?; save it with 8 bits a channel"):
        made("pictures", raw)


@pytest.mark.parametrize("mode", ["1", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_every_mode_of_bytes_is_colours(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    Image.new("L", (3, 2), 255).convert(mode).save(path)
    pixels = _pixels(path)
    assert pixels.shape == (2, 3, 3)
    assert (pixels == 255).all()


def test_pictures_that_are_not_square_are_cut_in_patches(raw: Path) -> None:
    wide = np.random.default_rng(5).integers(0, 256, (8, 12), np.uint8)
    for path in (raw / "pictures").rglob("*.png"):
        Image.fromarray(wide).save(path)
    data = PatchData(store=made("pictures", raw).split("/")[0], batch_size=4, patch=4)
    assert (data.seq_len, data.input_size) == (6, 16)
    inputs = data.examples("train", np.array([0]), None).inputs[0]
    patches = [wide[top : top + 4, left : left + 4].ravel() for top in (0, 4) for left in (0, 4, 8)]
    assert (inputs.numpy() * 255).round().tolist() == np.array(patches).tolist()
    for patch in (8, 6):  # each divides one side
        with pytest.raises(UserError, match=f"patch {patch} does not divide my-pictures's pictures, 8 x 12"):
            PatchData(store="my-pictures", batch_size=4, patch=patch)


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
