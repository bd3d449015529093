"""Speed of a training step of a frozen body on Bit Memory, beside the official code.

    python -m benchmarks.frozen --official DIR [--layers 12] [--repeats 7]

DIR is a checkout of the authors' code (github.com/kzl/universal-computation), which takes its body from `transformers`.
A step is forward, loss, backward, clipping and Adam over what is trained; GPT-2 small, random and frozen, batch 4 of
120 tokens, dropout 0.1 as in the paper. Both sides take turns, so that a busy machine slows both; a ratio is the median
of the ratios of neighbours. With dropout off and the same weights both must have the same loss and the same gradients,
or the benchmark fails. Prints a table and one line of JSON.

The authors' class asks for the pretrained model even where a random one is wanted; here it is given a random one.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from tabulate import tabulate
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from repro.data.puzzles.bits import BitMemoryData
from repro.models import Classifier, Gpt2
from repro.nn import VectorEmbedding

BATCH, PATCH, READ = 4, 50, 20


def ours(layers: int, dropout: float) -> Classifier:
    """This library's network."""
    layer = partial(VectorEmbedding, size=PATCH, dropout=dropout)
    body = Gpt2(n_layers=layers, dropout=dropout)
    return Classifier(layer, body, 2, READ, PATCH, ["input", "output", "norms", "positions"])


def official(folder: str, layers: int, dropout: float, attention: str) -> nn.Module:
    """The authors' network around a random body."""
    sys.path.insert(0, folder)
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        n_layer=layers, attn_pdrop=dropout, embd_pdrop=dropout, resid_pdrop=dropout, use_cache=False
    )
    config._attn_implementation = attention
    GPT2Model.from_pretrained = classmethod(lambda cls, name: cls(config))  # type: ignore[method-assign]
    from universal_computation.fpt import FPT

    return FPT(PATCH, 2 * PATCH, dropout=dropout)


def copy_weights(theirs: nn.Module, net: Classifier) -> None:
    """Gives ours the weights of theirs."""
    given = theirs.state_dict()
    found = {
        "input.proj": "in_net.0",
        "head.proj": "out_net.0",
        "body.stack.final_norm": "sequence_model.ln_f",
    }
    for i in range(len(net.body.stack.layers)):
        layer, block = f"body.stack.layers.{i}", f"sequence_model.h.{i}"
        found |= {
            f"{layer}.mix.norm_in": f"{block}.ln_1",
            f"{layer}.mix.body.qkv": f"{block}.attn.c_attn",
            f"{layer}.mix.body.out": f"{block}.attn.c_proj",
            f"{layer}.feed_forward.norm_in": f"{block}.ln_2",
            f"{layer}.feed_forward.body.inner": f"{block}.mlp.c_fc",
            f"{layer}.feed_forward.body.outer": f"{block}.mlp.c_proj",
        }
    state = {"body.positions.table.table.weight": given["sequence_model.wpe.weight"]}
    for mine, name in found.items():
        for part in ("weight", "bias"):
            value = given[f"{name}.{part}"]
            turned = part == "weight" and ".c_" in name
            state[f"{mine}.{part}"] = value.T if turned else value
    net.load_state_dict(state)


class Side:
    """One implementation with its optimiser."""

    def __init__(
        self,
        name: str,
        net: nn.Module,
        prepare: Callable[[Tensor], Tensor],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.name = name
        self.net = net.train()
        self.prepare = prepare
        self.clock = clock
        trained = [p for p in net.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=1e-3)
        self.seconds: list[float] = []

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy over all bits."""
        return cross_entropy(self.net(self.prepare(inputs)).reshape(-1, 2), targets.flatten())

    def step(self, inputs: Tensor, targets: Tensor) -> None:
        """One update, timed."""
        began = self.clock()
        self.optimizer.zero_grad()
        self.loss(inputs, targets).backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        self.seconds.append(self.clock() - began)


def agree(one: nn.Module, other: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    """Fails unless both have the same loss and trained gradients of the same norm.

    Raises:
        SystemExit: they differ.
    """
    sides = [Side("ours", one, lambda x: x), Side("official", other, strings)]
    losses, norms = [], []
    for side in sides:
        loss = side.loss(*batch)
        loss.backward()
        grads = [p.grad.norm() for p in side.net.parameters() if p.grad is not None]
        losses.append(loss.item())
        norms.append(torch.stack(grads).norm().item())
    for what, (a, b) in (("losses", losses), ("gradients", norms)):
        if abs(a - b) > 1e-4 * abs(b):
            raise SystemExit(f"{what} differ: {a} and {b}")


def strings(inputs: Tensor) -> Tensor:
    """Patches ``(B, 120, 50)`` as the strings ``(B, 6, 1000)`` that the authors' network cuts by itself."""
    return inputs.reshape(len(inputs), 6, -1)


def arguments() -> argparse.Namespace:
    """Those of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--official", required=True)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cpu-time", action="store_true", help="seconds of computing: for a busy machine, one thread"
    )
    return parser.parse_args()


def timed(sides: list[Side], batch: tuple[Tensor, Tensor], repeats: int) -> list[dict[str, object]]:
    """A row for each side; the first turn warms up and does not count."""
    for turn in range(repeats + 1):
        for side in sides:
            side.step(*batch)
        if turn == 0:
            for side in sides:
                side.seconds.clear()
    rows: list[dict[str, object]] = []
    for side in sides:
        ratio = statistics.median(b / a for a, b in zip(sides[0].seconds, side.seconds, strict=True))
        rows.append({"side": side.name, "seconds": statistics.median(side.seconds), "ratio": ratio})
    return rows


def main() -> None:
    """Times both sides."""
    args = arguments()
    clock = time.process_time if args.cpu_time else time.perf_counter
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    examples = BitMemoryData(BATCH).reader("train")(np.arange(BATCH), 0)
    batch = examples.inputs, examples.targets
    exact, same = official(args.official, args.layers, 0.0, "sdpa"), ours(args.layers, 0.0)
    copy_weights(exact, same)
    agree(same, exact, batch)
    eager = official(args.official, args.layers, 0.1, "eager")
    sides = [
        Side("ours", ours(args.layers, 0.1), lambda x: x, clock),
        Side("official", official(args.official, args.layers, 0.1, "sdpa"), strings, clock),
        Side("official, attention spelled out", eager, strings, clock),
    ]
    rows = timed(sides, batch, args.repeats)
    print(tabulate(rows, headers="keys", floatfmt=".3f"))
    print(json.dumps({"benchmark": "frozen", "layers": args.layers, "threads": args.threads, "rows": rows}))


if __name__ == "__main__":
    main()
