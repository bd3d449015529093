"""A tiny treebank under the true names of the licensed one, its sentences made up."""

from pathlib import Path

# As the treebank writes it: an indented tree over lines, a root without a label, traces, functions, alternatives.
TREE = """\
( (S
    (NP-SBJ-1 (DT The) (NN {noun}) )
    (VP (VBD was)
      (VP (VBN seen)
        (NP (-NONE- *-1) )
        (ADVP|PRT (RB again) )
        (PP-LOC=2 (IN in)
          (NP (DT the) (NN park) ))))
    (. .) ))
"""
STRIPPED = (
    "(TOP (S (NP (DT The) (NN {noun})) (VP (VBD was) (VP (VBN seen) (ADVP (RB again)) "
    "(PP (IN in) (NP (DT the) (NN park))))) (. .)))"
)
BRACKETS = "(S (NP XX XX )NP (VP XX (VP XX (ADVP XX )ADVP (PP XX (NP XX XX )NP )PP )VP )VP XX )S"
SHORT = "( (FRAG (NP (NN Dinner)) (: --) (NP (-LRB- -LRB-) (NNS {noun}) (-RRB- -RRB-))) )\n"
ONLY_TRACES = "( (S (NP-SBJ (-NONE- *)) (VP (-NONE- *?*))) )\n"
NOUNS = ("dog", "cat", "kite", "lamp", "poet")


def noun(section: int) -> str:
    """Returns the noun of a section's sentences."""
    return NOUNS[section % len(NOUNS)]


def write_sections(folder: Path) -> Path:
    """Writes sections 00 to 24 into ``folder/wsj``: two files each with a tree, in section 03 one of traces only."""
    for section in range(25):
        inside = folder / "wsj" / f"{section:02}"
        inside.mkdir(parents=True)
        more = ONLY_TRACES if section == 3 else ""
        (inside / f"wsj_{section:02}01.mrg").write_text(f"\n{TREE.format(noun=noun(section))}\n{more}")
        (inside / f"wsj_{section:02}02.mrg").write_text(SHORT.format(noun=noun(section)))
        (inside / "README").write_text("no tree")
    return folder


def write_lines(folder: Path) -> Path:
    """Writes the same kind of trees as ``train.trees``, ``val.trees`` and ``test.trees``, one a line."""
    folder.mkdir(parents=True)
    bare = STRIPPED.removeprefix("(TOP ").removesuffix(")")
    for split, lines in {"train": [STRIPPED, bare] * 20, "val": [STRIPPED], "test": [bare]}.items():
        text = "".join(f"{line.format(noun=NOUNS[i % 5])}\n" for i, line in enumerate(lines))
        (folder / f"{split}.trees").write_text(text)
    return folder
