from tags import tags


def test_finds_every_tag_once():
    assert len(tags("#Red #green and #red")) == 2


def test_tags_are_lower_case():
    assert ",".join(tags("#Red and #GREEN")) == "red,green"


def test_no_tags():
    assert tags("nothing here") == set()
