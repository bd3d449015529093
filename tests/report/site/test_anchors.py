import dataclasses

import pytest
from repro.report.site import anchors

from tests.report.fakes import make_record


def test_plain_names_stay():
    assert anchors.slug("toy/big@l128-e50") == "toy--big@l128-e50"
    assert anchors.runs("toy/big", "cpu") == "runs-toy--big--cpu"


@pytest.mark.parametrize("text", ["a b", 'a"b', "a<b", "a\nb", "ä", "\ud800", "a&b"])
def test_other_characters_go_and_names_stay_apart(text):
    made = anchors.slug(text)
    assert made.isascii()
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert made != anchors.slug(f"{text}{text[-1]}")
    assert anchors.slug("a b") != anchors.slug("a  b")


def test_every_run_has_an_address_of_its_own(house):
    record = make_record(house.recipe("big"), 1, 1.0)
    others = [
        record,
        dataclasses.replace(record, seed=2),
        dataclasses.replace(record, finished="2026-02-01T00:00:00Z"),
        dataclasses.replace(record, config_hash="f" * 64),
        dataclasses.replace(record, experiment="toy/base"),
    ]
    places = [anchors.run(r) for r in others]
    assert len(set(places)) == len(places)
    assert places[0].startswith("run-toy--big--paper-s1-")
