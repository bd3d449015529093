"""Files as people have them: every form is found, read and hashed alike; damaged ones are named."""

import gzip
import hashlib
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.data.packed import (
    FORMS,
    REMOVED,
    TextFile,
    decoded,
    find_packed,
    glob_packed,
    need_packed,
    plain_name,
    read_packed,
    sha256_of,
)
from repro.errors import UserError

CONTENT = b"some\nlines\n" * 20


def zipped(content: bytes, names: tuple[str, ...] = ("a",)) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, content)
    return made.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zip": zipped,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_found_and_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"a.txt{form}"
    path.write_bytes(PACKERS[form](CONTENT))
    assert find_packed(tmp_path, "a.txt") == need_packed(tmp_path, "a.txt", "") == path
    assert glob_packed(tmp_path, "*.txt") == [path]
    assert plain_name(path) == "a.txt"
    assert read_packed(path) == CONTENT


def test_the_plain_file_goes_first_and_names_sort_without_their_ends(tmp_path: Path) -> None:
    for name in ("b.txt", "b.txt.gz", "a.txt.xz", "a.txt.gz", "c.txt.zip", "._b.txt"):
        (tmp_path / name).write_bytes(b"")
    assert [path.name for path in glob_packed(tmp_path, "*.txt")] == ["a.txt.gz", "b.txt", "c.txt.zip"]
    assert find_packed(tmp_path, "a.txt") == tmp_path / "a.txt.gz"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.gz", gzip.compress(CONTENT)[:-9]),
        ("a.gz", b"no gzip"),
        ("a.xz", lzma.compress(CONTENT)[:-9]),
        ("a.xz", b"no xz"),
        ("a.zip", b"no zip"),
        ("a.zip", zipped(CONTENT, ("a", "b"))),
        (
            "a.zip",
            zipped(CONTENT)
            .replace(b"PK\x03\x04\x14\0\0", b"PK\x03\x04\x14\0\1")
            .replace(b"\x14\0\0\0\0", b"\x14\0\1\0\0"),
        ),
    ],
    ids=[
        "cut gz",
        "no gz",
        "cut xz",
        "no xz",
        "no zip",
        "two in a zip",
        "encrypted zip",
    ],  # bytes as ids would hold the time
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}:"):
        read_packed(tmp_path / name)


def test_a_folder_in_a_zip_is_not_its_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.txt.zip", "w") as archive:
        archive.mkdir("a")
        archive.writestr("a/a.txt", CONTENT)
    assert read_packed(tmp_path / "a.txt.zip") == CONTENT


def test_files_in_hidden_folders_are_left_out(tmp_path: Path) -> None:
    for name in (".ipynb_checkpoints/a.txt", "b/.c/a.txt", "b/a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert glob_packed(tmp_path, "**/*.txt") == [tmp_path / "b" / "a.txt"]
    assert glob_packed(tmp_path / "b" / ".c", "*.txt") == [tmp_path / "b" / ".c" / "a.txt"], (
        "the given one may be"
    )


def test_missing_files_and_other_encodings_are_named(tmp_path: Path) -> None:
    assert find_packed(tmp_path, "a") is None
    with pytest.raises(UserError, match=r"no a, plain or .*; take care"):
        need_packed(tmp_path, "a", "take care")
    with pytest.raises(UserError, match="cannot read"):
        read_packed(tmp_path / "a")
    with pytest.raises(UserError, match=r"UTF-8.*1"):
        decoded(b"a\xff", "here")


def test_the_hash_is_that_of_all_pieces() -> None:
    assert sha256_of([b"so", b"", b"me"]) == hashlib.sha256(b"some").hexdigest()


MARKS, ENDS = "byte order marks", "carriage returns at line ends"
LINES = ["one\u2028two\r\x0bthree\x85four\x0c\x1c", "", "last"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("content", "removed"),
    [
        ("\n".join(LINES), {}),
        ("\ufeff" + "".join(f"{line}\r\n" for line in LINES), {MARKS: 1, ENDS: 3}),
        ("\r\r\n".join(LINES) + "\r", {ENDS: 3}),
    ],
)
def test_only_a_line_feed_ends_a_line(
    tmp_path: Path, form: str, content: str, removed: dict[str, int]
) -> None:
    path = tmp_path / f"a.en{form}"
    path.write_bytes(PACKERS[form](content.encode()))
    file = TextFile(path)
    assert list(file) == LINES
    assert +REMOVED[str(path)] == removed
    assert file.facts() == {"lines": 3, "sha256": hashlib.sha256(content.encode()).hexdigest()}


def test_lines_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"fine\n\nb\xff\n")
    with pytest.raises(UserError, match=r"a, line 3 is not UTF-8 at byte 1"):
        list(TextFile(tmp_path / "a"))
