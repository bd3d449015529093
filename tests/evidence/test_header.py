from repro.evidence.header import read_header

GOAL = "{table: table1, row: big, metric: bleu, measured: test/bleu%s}"


def test_goal_with_everything(house):
    name = house.recipe("big", GOAL % ", protocol: {beam: 4}")
    (goal,) = read_header(name).goals
    assert (goal.table, goal.row, goal.metric, goal.measured) == ("table1", "big", "bleu", "test/bleu")
    assert goal.protocol == {"beam": 4}


def test_the_hash_is_that_of_the_records(house):
    name = house.recipe("big")
    (record,) = house.run(name, [1.0])
    assert read_header(name).config_hash == record.config_hash
