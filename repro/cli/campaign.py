"""The verb campaign: checks, measurements and runs on this machine, until the time is up."""

import argparse
import statistics

from repro.cli.arguments import Verbs
from repro.errors import EXIT_INTERRUPTED, EXIT_OK, UserError
from repro.launch.campaign import Campaign, Outcome, Step, load_campaign, outcomes, work
from repro.record import RECORD_FILE, RunRecord, read_record, write_atomic

GPU = "gpu"  # the campaign that needs one


def register(verbs: Verbs) -> None:
    """Adds this family's verb."""
    campaign = verbs.add_parser(
        "campaign",
        help="do the checks, measurements and runs of a list on this machine, until the time is up",
    )
    campaign.add_argument("name", metavar="NAME", help="of configs/campaign-NAME.yaml: gpu")
    campaign.add_argument(
        "--hours", type=float, default=4.0, help="when to stop (default 4); the next call goes on"
    )
    campaign.add_argument(
        "--rehearse",
        action="store_true",
        help="two updates of each experiment on the CPU, apart from all results",
    )
    campaign.set_defaults(handler=do_campaign)


def do_campaign(args: argparse.Namespace) -> int:
    if not args.hours > 0:
        raise UserError(f"--hours must be above 0, not {args.hours:g}")
    campaign = load_campaign(args.name, args.rehearse)
    steps = campaign.steps()
    device = _device()
    if args.name == GPU and not args.rehearse and device is None:
        raise UserError("campaign gpu: torch sees no GPU here; --rehearse tries the list on the CPU")
    stopped = work(campaign, steps, args.hours, lambda line: print(line, flush=True))
    report = campaign.folder / "report.md"
    write_atomic(report, _report(campaign, steps, device or "CPU").encode())
    done = outcomes(campaign.folder)
    n_done = sum(_state(step, done) == "done" for step in steps)
    again = "; the same command goes on" if n_done < len(steps) else ""
    print(f"{n_done} of {len(steps)} steps are done{again}\nreport   {report}")
    return EXIT_INTERRUPTED if stopped else EXIT_OK


def _device() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def _report(campaign: Campaign, steps: list[Step], device: str) -> str:
    """What to send back: everything that was done, and what was not."""
    from repro.experiment.facts import versions
    from repro.report.formats.blocks import Bullets, Document, Grid, Heading, Paragraph
    from repro.report.formats.markdown import render
    from repro.source import source

    done, ours = outcomes(campaign.folder), source()
    facts = [f"{name} {version}" for name, version in versions().items()]
    commit = f"commit {ours.commit}{' with changes' * bool(ours.dirty)}"
    checks, measures, runs = ([s for s in steps if s.part == part] for part in ("checks", "measures", "runs"))
    speeds = tuple((step.key, step.says, *_speed(step), _state(step, done)) for step in measures)
    scores = tuple((step.key, step.says, *_score(step), _state(step, done)) for step in runs)
    titles = ("Experiment", "Variant", "Tokens/s", "Utilisation", "Peak memory", "State")
    document: Document = [
        Heading(1, f"Campaign {campaign.name}{', rehearsed' * campaign.rehearsal}"),
        Paragraph(
            f"{', '.join([device, *facts, commit])}. Send this file and the new records of results/runs."
        ),
        Heading(2, "Checks"),
        Bullets(tuple(f"{step.says} {_state(step, done)}" for step in checks)),
        Heading(2, "Measurements"),
        Bullets(tuple(f"{one.experiment}: {one.moves}" for one in campaign.measures)),
        Grid(titles, speeds, frozenset({2, 3, 4})),
        Heading(2, "Runs"),
        Grid(("Run", "For", "First number", "Time", "State"), scores, frozenset({3})),
    ]
    return render(document, notice=False)


def _state(step: Step, done: dict[str, Outcome]) -> str:
    found = done.get(step.key)
    if step.done or (found and found.code == EXIT_OK):
        return "done"
    return f"exit code {found.code}: {found.line}" if found else "not begun"


def _record(step: Step) -> RunRecord | None:
    path = step.folder / RECORD_FILE if step.folder else None
    return read_record(path) if path and path.is_file() else None


def _speed(step: Step) -> tuple[str, str, str]:
    """Tokens/s and utilisation in the later half of the training, which no warming-up slows, and the most memory."""
    from repro import text

    record = _record(step)
    if record is None:
        return ("",) * 3
    speed, used = (_later(record, name) for name in ("train/tokens_per_s", "train/mfu"))
    return text.number(speed), text.number(used), text.size(record.peak_bytes)


def _later(record: RunRecord, name: str) -> float | None:
    values = [value for _, value in record.curves.get(name, ()) if value is not None]
    return statistics.median(values[len(values) // 2 :]) if values else None


def _score(step: Step) -> tuple[str, str]:
    from repro import text

    record = _record(step)
    if record is None or not record.metrics:
        return "", ""
    first = record.metrics[0]
    return f"{first.name} {text.number(first.value)} {first.unit}", text.duration(record.wall_seconds)
