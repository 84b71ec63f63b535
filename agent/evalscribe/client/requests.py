"""Submit requests from a program or a notebook, and show how it goes where somebody looks."""

from typing import Any

from evalscribe.app.collections.choice import ARGUMENT, chosen
from evalscribe.app.requests.submission import EXAMPLE, Submission
from evalscribe.app.requests.submit import RequestWatcher, Submitted, submit
from evalscribe.client.progress import Bar
from evalscribe.client.results import of_submitted
from evalscribe.client.service import BaseLLMService
from evalscribe.errors import UsageError
from evalscribe.workspace import Workspace


def submitted(
    service: BaseLLMService, workspace: Workspace, collection_id: str | None, fields: dict[str, Any], lanes: int | None
) -> dict[str, Any]:
    """`fields` are those of a `Submission`; `lanes`: requests at a time."""
    if fields["model"] is None:
        raise UsageError(f"model_string is missing: give provider/model, such as {EXAMPLE}")
    if lanes is not None and lanes < 1:
        raise UsageError(f"max_concurrency must be at least 1, not {lanes}")
    submission = Submission(**fields)
    collection = chosen(workspace, collection_id, ARGUMENT)

    def work(watcher: RequestWatcher) -> Submitted:
        return service.wait(
            lambda models: submit(workspace, models, collection, submission, watcher, concurrency=lanes)
        )

    with Bar() as bar:
        done = work(bar)
        bar.ended(done)
    return of_submitted(done)
