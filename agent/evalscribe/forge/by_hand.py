"""A forge that nothing is asked of: it only tells where a person opens the request to merge."""

from evalscribe.forge.address import page_to_open
from evalscribe.model.repository import PullRequest, PushedBranch


class ByHand:
    """`Forge` for any remote, and for GitHub without a token."""

    def __init__(self, remote_url: str | None) -> None:
        self.remote_url = remote_url

    def propose(self, pushed: PushedBranch, base: str, title: str, body: str, *, draft: bool) -> PullRequest:  # noqa: ARG002
        return PullRequest(url=page_to_open(pushed, base, self.remote_url), state="by hand", draft=draft)

    def comment(self, number: int, mark: str, body: str) -> None:  # noqa: ARG002
        return None

    def close(self) -> None:
        """Nothing was opened."""
