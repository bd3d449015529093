"""Runs experiments in real processes, one for each rank.

Started once as a program of its own, it imports everything, and then forks the ranks of each attempt that it is asked
for: a line of JSON on stdin asks, a line of JSON on stdout answers with how each rank ended. Forking saves the seconds
that importing takes.
"""

import json
import os
import signal
import socket
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from repro.errors import ReproError
from repro.experiment import session
from repro.experiment.build import build
from repro.experiment.compiling import compile_training
from repro.recipe import Recipe
from repro.tasks.metrics.bleu import WAYS, bleu
from repro.yamls import parse_yaml
from tests.experiment import interruptions, ranks
from tests.workshop import BITS_RECIPE, RECIPE, STICKY_RECIPE, STREAM_RECIPE, TALK_RECIPE

# What a rank can be asked to do; each is given the question and its rank.
PROGRAMS = {"interrupted": interruptions.main, "compared": ranks.forked}


def rank_main(asked: dict[str, Any], rank: int) -> None:
    """One rank of one attempt; ends the process."""
    world = asked["ranks"]
    os.environ |= asked["env"]
    if world > 1:
        os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0", "WORLD_SIZE": str(world)}
    code = 0
    try:
        PROGRAMS[asked["program"]](asked, rank)
    except ReproError as error:
        code = error.exit_code
        print(error, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def attempt(asked: dict[str, Any]) -> list[int]:
    """Forks the ranks; returns their exit codes, negative for signals."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
    children = []
    for rank in range(asked["ranks"]):
        child = os.fork()
        if child == 0:
            output = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(output, 1)
            os.dup2(output, 2)
            rank_main(asked, rank)
        children.append(child)
    codes: dict[int, int] = {}
    while len(codes) < len(children):
        child, status = os.wait()
        codes[child] = os.waitstatus_to_exitcode(status)
        if asked.get("point") and len(codes) < len(children):  # a stopped rank never ends by itself
            for other in {*children} - {*codes}:
                if Path(f"/proc/{other}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T":
                    os.kill(other, signal.SIGKILL)
    return [codes[child] for child in children]


session.compile_training = partial(compile_training, backend="eager", fullgraph=True)  # needs no compiler


def warm_up() -> None:
    """Builds a network of each kind and scores a sentence, so that ranks find all schemas and imports ready."""
    for text in (RECIPE, STREAM_RECIPE, STICKY_RECIPE, TALK_RECIPE, BITS_RECIPE):
        build(Recipe("any/recipe", "paper", parse_yaml(text, "recipe")), meta=True)
    for way in WAYS:
        bleu(["ein Satz"], ["ein Satz"], way)


if __name__ == "__main__":
    warm_up()
    for line in sys.stdin:
        print(json.dumps(attempt(json.loads(line))), flush=True)
