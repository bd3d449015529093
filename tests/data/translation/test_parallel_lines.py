"""Pairs of lines of the files of a corpus: what is marked up, sides that do not match."""

from pathlib import Path

import pytest

from repro.data.packed import TextFile
from repro.data.sets.translation.pair_files import kept_lines, read_pairs
from repro.errors import UserError


def lines(path: Path, straight: bool = False) -> list[str]:
    return list(kept_lines(TextFile(path), straight))


def test_segments_are_read_out_of_their_tags(tmp_path: Path) -> None:
    path = tmp_path / "newstest2014-deen-src.en.sgm"
    path.write_text(
        '<srcset>\n<doc>\n<p>\n<seg id="1"> Standard &amp; Poor\u2019s  said </seg>\n</p>\n'
        "<hl>\n<seg id=2>no <b> here</seg>\n<description>not this</description>\n</doc>\n"
    )
    assert lines(path) == ["Standard & Poor\u2019s  said", "no <b> here"]
    assert lines(path, straight=True)[0] == "Standard & Poor's  said"
    path.write_text("<doc>\nno segment\n")
    with pytest.raises(UserError, match=r"src\.en\.sgm has no segments"):
        list(read_pairs([{"en": path, "de": path}], False, {}))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('<seg id="1">one</seg>\n<seg id="2">two\nmore</seg>\n', 2),
        ("<seg id=1>three</seg> <seg id=2>four</seg>\n", 1),
        ("<doc>\nmore</seg>\n", 2),
    ],
)
def test_a_segment_that_is_not_on_a_line_of_its_own_is_named(tmp_path: Path, content: str, line: int) -> None:
    path = tmp_path / "newstest2014-deen-src.en.sgm"
    path.write_text(content)
    with pytest.raises(UserError, match=rf"src\.en\.sgm, line {line}: must be one whole segment"):
        lines(path)


def test_what_tells_of_a_talk_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "train.tags.de-en.en"
    path.write_text(
        "<url>u</url>\n<talkid>1</talkid>\n<title>A title</title>\n<keywords>k</keywords>\n"
        "<description>TED: told</description>\nspoken <i>words</i>\n"
    )
    assert lines(path) == ["A title", "TED: told", "spoken <i>words</i>"]
    other = tmp_path / "europarl-v7.de-en.en"
    path.rename(other)
    assert len(lines(other)) == 6  # only those files have such lines


def test_sides_go_together_or_not_at_all(tmp_path: Path) -> None:
    document = {"en": tmp_path / "a.en", "de": tmp_path / "a.de"}
    document["en"].write_text("1\n2\n3\n")
    document["de"].write_text("eins\nzwei\ndrei\n")
    assert list(read_pairs([document], False, {})) == [("1", "eins"), ("2", "zwei"), ("3", "drei")]
    document["de"].write_text("eins\n" * 1203)
    with pytest.raises(UserError, match=r"a\.en has 3 lines, fewer than the other side"):
        list(read_pairs([document], False, {}))
