from tree import tree


def test_lists_visible_files(tmp_path):
    for name in ("b.txt", "a/x.txt", "a/.hidden", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert tree(tmp_path) == ["a/x.txt", "b.txt"]


def test_empty_folder(tmp_path):
    assert tree(tmp_path) == []
