import pytest
from settings import load, setting

SETTINGS = '{"server": {"port": 8080, "host": null}, "debug": true}'


@pytest.mark.parametrize(
    ("name", "expected"),
    [("debug", True), ("server.port", 8080), ("server.host", None), ("server.name", "-"), ("a.b", "-")],
)
def test_dotted_names(name, expected):
    assert setting(load(SETTINGS), name, "-") == expected


def test_only_objects_are_settings():
    with pytest.raises(ValueError):
        load("[1, 2]")
