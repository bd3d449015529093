"""Lines of the files of a parallel corpus: where one ends, what is packed or marked up, every refusal."""

import gzip
import hashlib
import lzma
from pathlib import Path

import pytest

from repro.data.packed import plain_name
from repro.data.sets.translation.line_files import LineFile, in_pairs, is_marked_up
from repro.errors import UserError

ODD = "one\u2028two\r\x0bthree\x85four\x0c\x1c\n\nlast"


@pytest.mark.parametrize("end", ["", ".gz", ".xz"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, end: str) -> None:
    path = tmp_path / f"a.en{end}"
    path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[end](ODD.encode()))
    file = LineFile(path)
    assert list(file) == ["one\u2028two\r\x0bthree\x85four\x0c\x1c", "", "last"]
    assert file.facts() == {"lines": 3, "sha256": hashlib.sha256(ODD.encode()).hexdigest()}
    assert plain_name(path) == "a.en"


def test_segments_are_read_out_of_their_tags(tmp_path: Path) -> None:
    path = tmp_path / "newstest2014-deen-src.en.sgm"
    path.write_text(
        '<srcset>\n<doc>\n<p>\n<seg id="1"> Standard &amp; Poor\u2019s  said </seg>\n</p>\n'
        "<hl>\n<seg id=2>no <b> here</seg>\n<description>not this</description>\n</doc>\n"
    )
    assert list(LineFile(path)) == ["Standard & Poor\u2019s  said", "no <b> here"]
    assert next(iter(LineFile(path, straight=True))) == "Standard & Poor's  said"
    assert is_marked_up(path)
    assert is_marked_up(tmp_path / "a.xml.gz")
    assert not is_marked_up(tmp_path / "a.xml.en")


def test_what_tells_of_a_talk_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "train.tags.de-en.en"
    path.write_text(
        "<url>u</url>\n<talkid>1</talkid>\n<title>A title</title>\n<keywords>k</keywords>\n"
        "<description>TED: told</description>\nspoken <i>words</i>\n"
    )
    assert list(LineFile(path)) == ["A title", "TED: told", "spoken <i>words</i>"]
    other = tmp_path / "europarl-v7.de-en.en"
    path.rename(other)
    assert len(list(LineFile(other))) == 6  # only those files have such lines


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.en", b"fine\n\nb\xff\n", r"a\.en is not UTF-8 in line 3"),
        ("a.en.gz", b"no gzip", r"cannot read .*a\.en\.gz: .*; get the file again"),
        ("a.en.gz", gzip.compress(b"x\n" * 9999, mtime=0)[:-9], r"cannot read .*a\.en\.gz"),
        ("a.en.xz", b"no xz", r"cannot read .*a\.en\.xz"),
        ("a.en.sgm", b"<doc>\nno segment\n", r"a\.en\.sgm has no segments"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=said) as caught:
        list(LineFile(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_sides_go_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("1\n2\n3\n")
    (tmp_path / "a.de").write_text("eins\nzwei\ndrei\n")
    assert list(in_pairs([LineFile(tmp_path / "a.en"), LineFile(tmp_path / "a.de")])) == [
        ("1", "eins"), ("2", "zwei"), ("3", "drei"),
    ]  # fmt: skip
    (tmp_path / "a.de").write_text("eins\n" * 1203)
    with pytest.raises(UserError, match=r"a\.en has 3 lines,.*a\.de has 1,203"):
        list(in_pairs([LineFile(tmp_path / "a.en"), LineFile(tmp_path / "a.de")]))
