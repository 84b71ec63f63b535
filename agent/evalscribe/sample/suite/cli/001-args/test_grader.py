from count import main


def test_counts_each_file(tmp_path, capsys):
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    assert main([str(file)]) == 0
    assert capsys.readouterr().out == f"2 {file}\n"


def test_total(tmp_path, capsys):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("line\n")
    assert main(["--total", str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]) == 0
    assert capsys.readouterr().out == "2\n"


def test_unknown_option(capsys):
    assert main(["--wrong", "a.txt"]) == 2
    assert capsys.readouterr().err


def test_no_files(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err
