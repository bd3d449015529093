"""Facts for the record say what they should and nothing about the machine's owner."""

import getpass
import json
import socket

from repro.experiment import facts


def test_no_host_and_no_user() -> None:
    text = json.dumps([facts.versions(), facts.hardware(1, 1)])
    assert socket.gethostname() not in text
    assert getpass.getuser() not in text.split('"')
    assert facts.versions()["torch"]


def test_peak_is_in_bytes() -> None:
    assert 50e6 < facts.peak_bytes() < 1e12
