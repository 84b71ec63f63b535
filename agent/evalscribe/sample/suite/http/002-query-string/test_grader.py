from links import with_query


def test_adds_to_a_bare_url():
    assert with_query("http://a.example/x", q="two words") == "http://a.example/x?q=two+words"


def test_keeps_what_is_there():
    assert with_query("http://a.example/?a=1#top", b="2") == "http://a.example/?a=1&b=2#top"
