"""Hypothesis strategies for items of datasets."""

from hypothesis import strategies as st

from evalscribe import text
from evalscribe.model.dataset import Item

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=2)
NAMES = TEXT.map(text.name)
ITEMS = st.builds(
    Item,
    key=NAMES,
    input=JSON,
    expected_output=JSON,
    metadata=OBJECTS,
    events=st.lists(OBJECTS, max_size=2).map(tuple),
    split=st.none() | NAMES,
    cluster=st.none() | NAMES,
    source=OBJECTS,
)
