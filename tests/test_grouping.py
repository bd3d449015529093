from repro.grouping import grouped


def test_members_keep_their_order() -> None:
    groups = grouped([("b", 2), ("a", 1), ("b", 1), ("b", 2)])
    assert list(groups.items()) == [("b", [2, 1, 2]), ("a", [1])]
    assert groups["c"] == []
