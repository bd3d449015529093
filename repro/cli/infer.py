"""Verbs that use trained models: translate, generate, attention, recl."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from repro.cli.arguments import Verbs, add, add_flag, add_verb, experiments_and_papers
from repro.errors import UserError, at_least
from repro.events import EVENTS_FILE
from repro.recipe import SCALES
from repro.record import RECORD_FILE, write_atomic
from repro.seeds import require_seed


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    translate = add_verb(verbs, "translate", translate_lines)
    add_run(translate)
    add(translate, "--beam", "hypotheses kept (default: the recipe's)", type=int)
    each = "print the N best of each line, each behind its score and a tab"
    add(translate, "--n-best", each, type=int, metavar="N")
    add(translate, "--batch", "lines translated at once (default 32)", type=int, default=32, metavar="N")
    picture = "draw the attention of the first translation to this file"
    add(translate, "--attention", picture, type=Path, metavar="PNG")
    add_compile(translate)

    generate = add_verb(verbs, "generate", generate_lines)
    add_run(generate)
    generate.add_argument("--temperature", type=float, default=1.0)
    add(generate, "--top-k", "sample among the K likeliest tokens", type=int, metavar="K")
    add(generate, "--top-p", "sample among the likeliest tokens of mass P", type=float, metavar="P")
    add_count(generate, "--max-new", 100, "at most N new tokens")
    add_count(generate, "--samples", 1, "samples of each line")
    add_count(generate, "--seed", 0, "seed of the sampling")
    add_compile(generate)

    attention = add_verb(verbs, "attention", draw_attention)
    add_run(attention)
    add(attention, "--out", "the figure: .png, .svg or .pdf", type=Path, required=True, metavar="FILE")

    recl = add_verb(verbs, "recl", compare_runs)
    add_run(recl, "runs", "+")
    add_count(recl, "--start", 100, "the first context in tokens")
    add_count(recl, "--step", 100, "step between contexts in tokens")
    add_count(recl, "--longest", 1000, "the longest context in tokens")
    add_count(recl, "--places", 1000, "tokens that are scored")
    shares, hardest = (0.1, 0.5, 1.0), "shares of the hardest tokens"
    add(recl, "--ratios", hardest, type=float, nargs="+", default=shares, metavar="R")
    recl.add_argument("--split", choices=("train", "val", "test"), default="test")
    add_flag(recl, "--json")


def add_run(parser: argparse.ArgumentParser, name: str = "run", nargs: str | None = None) -> None:
    """Adds the arguments that name a trained run, or several."""
    meaning = "run folder, run id or experiment"
    add(parser, name, meaning, nargs=nargs, metavar="RUN", words=experiments_and_papers)
    which = "if RUN is an experiment (default: the newest run)"
    add(parser, "--scale", f"scale, {which}", choices=SCALES)
    add(parser, "--run-seed", f"seed, {which}", type=int)


def add_compile(parser: argparse.ArgumentParser) -> None:
    """Adds the choice to compile the model."""
    meaning = (
        "compile the layers with torch.compile: seconds at first, then less time a token; for long texts"
    )
    add_flag(parser, "--compile", meaning)


def add_count(parser: argparse.ArgumentParser, name: str, default: int, meaning: str) -> None:
    """Adds a whole number."""
    add(parser, name, f"{meaning} (default {default})", type=int, default=default, metavar="N")


def translate_lines(args: argparse.Namespace) -> None:
    """Translate lines of standard input with a trained run."""
    from repro.experiment.trained import best_translations, draw_attention, load_trained

    at_least(1, **{"--beam": args.beam, "--batch": args.batch})
    picture: Path | None = args.attention
    if picture and (picture.suffix != ".png" or picture.is_dir()):
        raise UserError(f"--attention {picture}: name a file that ends in .png")
    trained = load_trained(args.run, args.scale, args.run_seed, args.compile)
    trained.require_encoder()
    for lines in batches(args.batch, trained.encode):
        translations = best_translations(trained, lines, args.beam, 1 if args.n_best is None else args.n_best)
        for score, text in translations:
            print(text if args.n_best is None else f"{score:.4f}\t{text}", flush=True)
        if picture is not None:
            write_atomic(picture, draw_attention(trained, lines[0], translations[0][1]))
            picture = None


def generate_lines(args: argparse.Namespace) -> None:
    """Sample continuations of prompts, or translations, line by line."""
    from repro.experiment.trained import Sampling, load_trained, sample_line

    sampling = Sampling(args.temperature, args.top_k, args.top_p, args.max_new)
    at_least(1, **{"--samples": args.samples})
    require_seed(args.seed)
    trained = load_trained(args.run, args.scale, args.run_seed, args.compile)
    for number, (line,) in enumerate(batches(1, strip=False), 1):
        try:
            texts = sample_line(trained, line, sampling, args.samples, args.seed)
        except UserError as error:
            raise UserError(f"line {number} of standard input: {error}") from None
        print(*texts, sep="\n", flush=True)


def batches(size: int, check: Callable[[str], object] = str, strip: bool = True) -> Iterator[list[str]]:
    """Lines of standard input, in batches; from a terminal, one at a time.

    Args:
        size: lines of a batch.
        check: called with every line; raises a ``UserError`` for one that cannot be used.
        strip: whether blanks at both ends of a line are no part of it.

    Raises:
        UserError: an empty line, bytes that are not UTF-8, or what ``check`` refuses; names the line, after all lines
            before it.
    """
    interactive = sys.stdin.isatty()
    if interactive:
        print("one sentence a line; end with Ctrl-D", file=sys.stderr)
    lines: list[str] = []
    for number, content in enumerate(sys.stdin.buffer, 1):  # as bytes: text is decoded ahead, in blocks
        try:
            lines.append(_sentence(content, check, strip))
        except UserError as error:
            if lines:
                yield lines
            raise UserError(f"line {number} of standard input: {error}") from None
        if len(lines) == (1 if interactive else size):
            yield lines
            lines = []
    if lines:
        yield lines


def _sentence(content: bytes, check: Callable[[str], object], strip: bool) -> str:
    try:
        line = content.decode().strip(None if strip else "\r\n")
    except UnicodeDecodeError:
        raise UserError("it is not UTF-8") from None
    if not line.strip():
        raise UserError("it is empty; give one sentence a line")
    check(line)
    return line


def draw_attention(args: argparse.Namespace) -> None:
    """Draw the attention of a trained run over its continuous memory."""
    from repro.cli.show import FIGURES, run_in
    from repro.experiment.pictures.memory_pictures import load_captures, profiles
    from repro.report.plots.drawing import drawn
    from repro.report.plots.plot import MEMORIES, Plot
    from repro.report.plots.recorded import by_position

    out: Path = args.out
    if out.suffix not in FIGURES:
        raise UserError(f"{out}: a figure is one of {', '.join(FIGURES)}")
    folder, captures = load_captures(args.run, args.scale, args.run_seed)
    record = run_in(folder)
    if record is None:
        raise UserError(
            f"{folder} has no {RECORD_FILE} or {EVENTS_FILE} that names its run; copy one of the two from the folder "
            "in which it was trained"
        )
    chart = by_position(replace(record, profiles=profiles(captures)))
    write_atomic(out, drawn(Plot(out.name, MEMORIES, chart.title, chart), out.suffix))


def compare_runs(args: argparse.Namespace) -> None:
    """Compute the relative effective context length (RECL) of a group of language models."""
    from repro.experiment.context import ContextSettings, compare, load_reader

    ratios = tuple(dict.fromkeys(args.ratios))
    settings = ContextSettings(args.start, args.step, args.longest, ratios, args.places, args.split)
    readers = [load_reader(word, args.scale, args.run_seed) for word in args.runs]
    results = compare(readers, settings, report)
    print(json.dumps(results, indent=1) if args.json else table(results))


def report(line: str) -> None:
    """Prints progress to stderr, if that is a terminal."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


def table(results: list[dict[str, Any]]) -> str:
    """Text table: a row for each run, a column for each ratio; ``+`` where the search ended before the gains did."""
    from tabulate import tabulate

    ratios = list(results[0]["recl"])
    rows = []
    for result in results:
        lengths = (f"{result['recl'][r]}{'+' if result['at_longest'][r] else ''}" for r in ratios)
        rows.append([result["run"], f"{result['parameters']:,}", *lengths])
    heads = ["run", "parameters", *(f"RECL r={r}" for r in ratios)]
    text = tabulate(rows, heads, tablefmt="simple", disable_numparse=True)
    if any(any(result["at_longest"].values()) for result in results):
        text += f"\n+ at least: with more context than --longest {results[0]['longest']} RECL may be longer"
    return f"{text}\nlengths compare within this group only"
