from members import remove, unique


def test_each_id_once():
    assert unique(["b", "a", "b"]) == ["a", "b"]


def test_remove_counts_only_members():
    members = {"a": "Ada", "b": "Bob"}
    assert remove(members, ["a", "a", "x"]) == 1
    assert members == {"b": "Bob"}
