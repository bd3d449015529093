import pytest

from repro.errors import UserError
from repro.evidence.header import read_header

GOAL = "{table: table1, row: big, metric: bleu, measured: test/bleu%s}"


def test_goal_with_everything(house):
    name = house.recipe("big", GOAL % ", protocol: {beam: 4}")
    (goal,) = read_header(name).goals
    assert (goal.table, goal.row, goal.metric, goal.measured) == ("table1", "big", "bleu", "test/bleu")
    assert goal.protocol == {"beam": 4}


def test_a_scale_replaces_the_list_for_its_scale(house):
    name = house.recipe("big")
    house.write("big", "reproduces: []\n", "cpu")
    assert read_header(name, "cpu").goals == []
    assert len(read_header(name).goals) == 1


def test_the_hash_is_that_of_the_records(house):
    name = house.recipe("big")
    (record,) = house.run(name, [1.0])
    assert read_header(name).config_hash == record.config_hash


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (GOAL % ", protocoll: 1", "unknown key 'protocoll'; nearest: protocol"),
        (GOAL % ", tolerance: 1", "unknown key 'tolerance'"),  # margins stand with the published numbers
        (GOAL % ", protocol: 4", "4 is not a mapping"),
        ("{table: table1, row: big, metric: bleu}", "'measured' is None"),
        ("table1", "list of mappings"),
    ],
)
def test_a_malformed_goal_is_refused_with_the_recipe_named(house, entry, said):
    name = house.recipe("big", entry)
    with pytest.raises(UserError, match=said) as error:
        _ = read_header(name).goals
    assert "toy/big at scale paper" in str(error.value)


def test_a_recipe_says_nothing_of_claims(house):
    name = house.recipe("big")
    house.write("big", "supports: [{trend: bigger-is-better, as: base}]\n", "cpu")
    with pytest.raises(UserError, match="unknown key 'supports'"):
        read_header(name, "cpu")
