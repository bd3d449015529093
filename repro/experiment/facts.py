"""Facts about the machine of a run: versions, hardware, memory. No host, user or path names."""

import contextlib
import importlib.metadata
import os
import platform
import re
import resource
from pathlib import Path
from typing import Any

import torch

from repro.code.plugins import hashes
from repro.code.source import release
from repro.record import INSTRUCTIONS

PACKAGES = (
    "torch", "lightning", "jsonargparse", "numpy", "tokenizers", "sentencepiece", "sacrebleu", "datasets",
    "wandb",
)  # fmt: skip
TF32_VARIABLES = ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "NVIDIA_TF32_OVERRIDE")  # they overrule the recipe


def versions() -> dict[str, str]:
    """Versions of Python, of the packages that can change a number, of an installed wheel and of plugins."""
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    plugins = {f"plugin {name}": f"sha256:{sha256}" for name, sha256 in hashes().items()}
    return installed | release() | plugins


def hardware(devices: int, nodes: int, device: torch.device) -> dict[str, Any]:
    """Returns the name of the device that was used, which need not be a GPU of the machine, and the number of devices.

    On a GPU the precision of float32 products belongs to it, with the variables of the environment that overrule it.

    Results on a CPU depend on the vector instructions of the libraries: torch names those that it uses, the others use
    the best of the machine (``default``) unless a variable of the environment limits them.
    """
    if device.type == "cuda":
        limits = {name: os.environ[name] for name in TF32_VARIABLES if name in os.environ}
        matmul = {"matmul_precision": torch.get_float32_matmul_precision(), **limits}
        return {"device": torch.cuda.get_device_name(), "count": devices, "nodes": nodes, **matmul}
    instructions = {"torch": torch.backends.cpu.get_cpu_capability()}
    for library, variable in INSTRUCTIONS.items():
        instructions.setdefault(library, os.environ.get(variable, "default"))
    facts = {"device": _cpu_name(), "count": devices, "nodes": nodes, "threads": torch.get_num_threads()}
    return facts | {"instructions": instructions}


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    named = re.search(r"^model name\s*:(.+)", text, re.M)
    return " ".join(named[1].split()) if named else platform.processor() or platform.machine()


def peak_bytes() -> int:
    """Most memory in use at once: of the GPU where there is one, else resident in the process."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated()
    scale = 1 if os.uname().sysname == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
