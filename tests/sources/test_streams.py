"""Limits of the readers of large files."""

from pathlib import Path

import pytest

from evalscribe.errors import DataError
from evalscribe.sources import streams
from evalscribe.sources.streams import FileReader, read_xml


@pytest.mark.parametrize(
    "xml", ["<a>{text}{text}</a>", "<a>{text}<b/>{text}</a>", "<a><b>{text}</b><b>{text}{text}</b></a>"]
)
def test_text_of_an_xml_element_is_limited_around_its_children(
    xml: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_XML_TEXT", 1_000)
    path = tmp_path / "results.xml"
    path.write_text(xml.format(text="x" * 600))
    with FileReader(path) as reader, pytest.raises(DataError, match="the text of an element is too long"):
        list(read_xml(reader, "results.xml"))


def test_limit_counts_the_text_of_each_xml_element_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_XML_TEXT", 1_000)
    path = tmp_path / "results.xml"
    path.write_text("<a>" + f"<b>{'x' * 600}</b>" * 3 + "</a>")
    with FileReader(path) as reader:
        assert len(list(read_xml(reader, "results.xml"))) == 8
