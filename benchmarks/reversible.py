"""Speed of a reversible language model beside other codes, and its memory by depth.

    python -m benchmarks.reversible [--official DIR]

DIR is a checkout of github.com/lucidrains/reformer-pytorch. The side ``transformers`` needs that package; without
either only ours are timed. 6 layers of hashed attention (width 256, 4 heads, chunks of 64) and feed-forward (1024), 256
tokens, one row of 4096 in float32, no dropout: forward, mean loss and backward, no optimiser. Ours once with the
paper's masks and once across buckets, and each peer beside the one of ours that masks as it does (see
benchmarks/lsh.py). ``ordinary`` is ours without undoing. All have positions, whole feed-forward layers, and ReLU.
Sides take turns, and a ratio is the median of the ratios of neighbours; ``--cpu-time`` counts seconds of computing
instead of seconds on the clock, for one thread on a machine that others use. That ours computes what transformers'
computes is the business of tests/models/test_golden_reversible.py.

Memory: the most bytes held at a time in a step beyond parameters and gradients, to the byte as torch's profiler counts
them, for 6 and 24 layers. ``chunks`` cuts feed-forward layers by 512 tokens and losses likewise. Prints tables and one
line of JSON.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks import lsh
from repro.models import DecoderLM
from repro.nn import (
    Added,
    AxialPositions,
    Blocks,
    FeedForward,
    Hashing,
    LSHAttention,
    PreNorm,
    ResidualStack,
    ReversibleStack,
    Vocabulary,
)
from repro.tasks.costs.peak import peak_bytes

Clock = Callable[[], float]
D_MODEL, D_FF, HEADS, CHUNK, VOCAB, LENGTH, LAYERS = 256, 1024, 4, 64, 256, 4096, 6
# Whom a side is compared with: the same masks first.
AGAINST = {"transformers": "ours, across", "official": "ours, across", "official, masks of the paper": "ours"}
CUT = 512


class Ours(nn.Module):
    """This library's side."""

    def __init__(
        self, hashing: Hashing, stack: Any = ReversibleStack, layers: int = LAYERS, cut: int | None = None
    ) -> None:
        super().__init__()
        blocks = Blocks(
            mixers=[partial(LSHAttention, n_heads=HEADS, hashing=hashing)],
            feed_forward=partial(FeedForward, d_ff=D_FF, chunk=cut),
            sublayer=partial(PreNorm, dropout=0.0),
            final_norm=nn.LayerNorm,
            stack=stack,
        )
        vocabulary = partial(Vocabulary, size=VOCAB, tied=False, scaled=False, loss_chunk=cut)
        table = partial(AxialPositions, shape=[64, LENGTH // 64], widths=[64, 192])
        self.model = DecoderLM(D_MODEL, layers, vocabulary, blocks, partial(Added, table=table), dropout=0.0)

    def forward(self, ids: Tensor) -> Tensor:
        return self.model.vocabulary.nll(self.model(ids[:, :-1]).y, ids[:, 1:]).mean()


class Transformers(nn.Module):
    """ReformerModelWithLMHead of the package transformers."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        from transformers import ReformerConfig, ReformerModelWithLMHead

        config = ReformerConfig(
            hidden_size=D_MODEL,
            num_attention_heads=HEADS,
            attention_head_size=D_MODEL // HEADS,
            feed_forward_size=D_FF,
            attn_layers=["lsh"] * LAYERS,
            lsh_attn_chunk_length=CHUNK,
            num_hashes=rounds,
            num_buckets=lsh.buckets_of(LENGTH),
            is_decoder=True,
            use_cache=False,
            hidden_dropout_prob=0.0,
            lsh_attention_probs_dropout_prob=0.0,
            axial_pos_shape=[64, LENGTH // 64],
            axial_pos_embds_dim=[64, 192],
            max_position_embeddings=LENGTH,
            vocab_size=VOCAB,
        )
        self.model = ReformerModelWithLMHead(config)

    def forward(self, ids: Tensor) -> Tensor:
        logits = self.model(ids[:, :-1]).logits
        return cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


class Official(nn.Module):
    """ReformerLM of reformer-pytorch, with a table of positions."""

    def __init__(self, folder: str, rounds: int, masks: bool) -> None:
        super().__init__()
        lsh.official(folder, rounds, masks)  # puts stand-ins for what it names and does not use here
        from reformer_pytorch import reformer_pytorch as theirs

        self.model = theirs.ReformerLM(
            VOCAB,
            D_MODEL,
            LAYERS,
            LENGTH,
            heads=HEADS,
            dim_head=D_MODEL // HEADS,
            bucket_size=CHUNK,
            n_hashes=rounds,
            ff_chunks=1,
            causal=True,
            ff_activation=nn.ReLU,
            random_rotations_per_head=True,
            absolute_position_emb=True,
        )
        for module in self.model.modules():
            if isinstance(module, theirs.LSHAttention):
                module._attend_across_buckets = not masks
                module._allow_duplicate_attention = not masks

    def forward(self, ids: Tensor) -> Tensor:
        logits = self.model(ids[:, :-1])
        return cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def sides(rounds: int, folder: str | None) -> dict[str, nn.Module]:
    """Those that can run here."""
    torch.manual_seed(0)
    paper, across = Hashing(rounds, CHUNK), Hashing.across(rounds, CHUNK)
    found: dict[str, nn.Module] = {"ours": Ours(paper), "ours, across": Ours(across)}
    found["ordinary"] = Ours(paper, ResidualStack)
    if "transformers" in lsh.sides(None):
        found["transformers"] = Transformers(rounds)
    if folder:
        found["official"] = Official(folder, rounds, masks=False)
        found["official, masks of the paper"] = Official(folder, rounds, masks=True)
    return found


def step(side: nn.Module, ids: Tensor, clock: Clock) -> tuple[float, float]:
    """Seconds and loss of one forward and backward pass."""
    side.zero_grad(set_to_none=True)
    begin = clock()
    loss = side(ids)
    loss.backward()
    return clock() - begin, loss.item()


def compare(rounds: int, folder: str | None, repeats: int, clock: Clock) -> dict[str, Any]:
    """Times all sides in turn with one number of rounds."""
    models = sides(rounds, folder)
    ids = torch.randint(VOCAB, (1, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    seconds: dict[str, list[float]] = {name: [] for name in models}
    losses: dict[str, float] = {}
    for turn in range(repeats + 1):
        for name, side in models.items():
            took, losses[name] = step(side, ids, clock)
            if turn:  # the first turn warms up
                seconds[name].append(took)
    ratios = {
        name: statistics.median(
            a / b for a, b in zip(seconds[name], seconds[AGAINST.get(name, "ours")], strict=True)
        )
        for name in models
    }
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    return {"rounds": rounds, "seconds": medians, "over_ours": ratios, "losses": losses}


def memory(rounds: int, length: int) -> list[dict[str, Any]]:
    """Peak bytes of a step by depth: reversible, ordinary, and reversible in chunks."""
    kinds: dict[str, tuple[Any, int | None]] = {
        "reversible": (ReversibleStack, None),
        "reversible, chunks": (ReversibleStack, CUT),
        "ordinary": (ResidualStack, None),
    }
    ids = torch.randint(VOCAB, (1, length + 1), generator=torch.Generator().manual_seed(1))
    found = []
    for name, (stack, cut) in kinds.items():
        peaks = {}
        for layers in (6, 24):
            torch.manual_seed(0)
            side = Ours(Hashing(rounds, CHUNK), stack, layers, cut)
            for parameter in side.parameters():
                parameter.grad = torch.zeros_like(parameter)
            peaks[str(layers)] = peak_bytes(lambda side=side: side(ids).backward())  # type: ignore[misc]
        found.append(
            {"rounds": rounds, "kind": name, "peak_bytes": peaks, "growth": peaks["24"] / peaks["6"]}
        )
    return found


def time_table(times: list[dict[str, Any]]) -> str:
    """Seconds for people."""
    from tabulate import tabulate

    rows = [[t["rounds"], n, 1e3 * s, t["over_ours"][n]] for t in times for n, s in t["seconds"].items()]
    return tabulate(rows, ["rounds", "side", "ms/step", "over ours"], floatfmt=("", "", ".0f", ".2f"))


def memory_table(peaks: list[dict[str, Any]]) -> str:
    """Bytes for people."""
    from tabulate import tabulate

    rows = [
        [p["rounds"], p["kind"], *(size / 2**20 for size in p["peak_bytes"].values()), p["growth"]]
        for p in peaks
    ]
    heads = ["rounds", "stack", "6 layers, MiB", "24 layers, MiB", "growth"]
    return tabulate(rows, heads, floatfmt=("", "", ".1f", ".1f", ".3f"))


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--official", metavar="DIR", help="a checkout of reformer-pytorch")
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--repeats", type=int, default=3, help="timed turns of each side; 0 times nothing")
    parser.add_argument(
        "--memory-length", type=int, default=LENGTH, help="tokens of a row; 0 measures no memory"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="count seconds of computing, of all threads")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.cpu_time else time.perf_counter
    times = [compare(rounds, args.official, args.repeats, clock) for rounds in args.rounds if args.repeats]
    if times:
        print(time_table(times), flush=True)
    peaks = [p for rounds in args.rounds if args.memory_length for p in memory(rounds, args.memory_length)]
    if peaks:
        print(memory_table(peaks))
    report = {
        "threads": args.threads,
        "cpu_time": args.cpu_time,
        "torch": torch.__version__,
        "times": times,
        "memory": peaks,
    }
    print(json.dumps({"benchmark": "reversible", **report}))


if __name__ == "__main__":
    main()
