"""Put the page of an exploration where it belongs."""

from functools import partial

from evalscribe.app.placed import Put, put
from evalscribe.collections.exploration_page import same_question
from evalscribe.ids import content_id, model_folder, path_part
from evalscribe.model.exploration import Exploration
from evalscribe.model.protocols import Library
from evalscribe.text import slug

COLLECTIONS = "collections"
"""The folder of what is about several models."""
LONGEST_NAME = 50
"""Characters of the question in a file's name."""


def put_exploration(library: Library, found: Exploration, text: str) -> Put:
    """Into the model's folder; where several are explored, into the collection's.

    The same question about the same agent runs and as many of them, asked of the same judge, has one file.
    """
    facts = [found.collection_id, found.question, found.where, found.max_runs, found.judge]
    asked = content_id(facts).removeprefix("sha256:")
    stem = f"{_folder(found)}/explore_{_name(found.question)}_"
    return put(library, "exploration", stem + asked[:8], stem + asked[:24], text, partial(same_question, text))


def _folder(found: Exploration) -> str:
    folders = {model_folder(member.provider, member.model) for member in found.members}
    return "/".join(folders.pop()) if len(folders) == 1 else f"{COLLECTIONS}/{path_part(found.collection)}"


def _name(question: str) -> str:
    short = slug(question).lower()[: LONGEST_NAME + 1]
    whole = short if len(short) <= LONGEST_NAME else short.rpartition("-")[0]
    return path_part(whole or short)
