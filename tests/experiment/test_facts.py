"""Facts for the record say what they should and nothing about the machine's owner."""

import getpass
import json
import socket

import pytest
import torch

from repro.experiment import facts

CPU = torch.device("cpu")


def test_no_host_and_no_user() -> None:
    text = json.dumps([facts.versions(), facts.hardware(1, 1, CPU)])
    assert socket.gethostname() not in text
    assert getpass.getuser() not in text.split('"')
    assert facts.versions()["torch"]


def test_a_cpu_run_on_a_machine_with_a_gpu_names_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA A100")
    gpu = facts.hardware(2, 1, torch.device("cuda", 0))
    assert (gpu["device"], gpu["count"], gpu["nodes"]) == ("NVIDIA A100", 2, 1)
    cpu = facts.hardware(2, 1, CPU)
    assert (cpu["device"] != "NVIDIA A100", cpu["threads"]) == (True, torch.get_num_threads())


def test_a_cpu_run_names_the_instructions_of_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MKL_ENABLE_INSTRUCTIONS", raising=False)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert facts.hardware(1, 1, CPU)["instructions"] == {
        "torch": torch.backends.cpu.get_cpu_capability(), "onednn": "AVX2", "mkl": "default",
    }  # fmt: skip


def test_a_gpu_run_names_the_precision_of_its_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    result = facts.hardware(1, 1, torch.device("cuda"))
    assert result["matmul_precision"] == "highest"
    assert result["NVIDIA_TF32_OVERRIDE"] == "1"


def test_peak_is_in_bytes() -> None:
    assert 50e6 < facts.peak_bytes() < 1e12
