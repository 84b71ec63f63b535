"""The tool that records builds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mcp.server.mcpserver import Context
from pydantic import Field

from evalscribe.ids import Frozen
from evalscribe.mcp_server.place import Place
from evalscribe.mcp_server.progress import watched


class DeploymentMade(Frozen):
    written: bool
    message: str
    id: str | None
    """For run_experiment; null where nothing was recorded."""
    name: str
    components: tuple[str, ...]
    folder: str
    source: str | None = None
    """The commit, or that it is not in git; `(dirty)`: files differ from it."""


@dataclass(frozen=True)
class Building:
    place: Place

    async def create_deployment(
        self,
        name: Annotated[str, Field(min_length=1, description="Of the new build, such as a commit.")],
        like: Annotated[
            str, Field(min_length=1, description="The deployment whose components these are, by id or name.")
        ],
        ctx: Context,
        write: Annotated[
            bool,
            Field(
                description="Record it: functions are imported and addresses asked. Default: false, which only tells "
                "of what."
            ),
        ] = False,
    ) -> DeploymentMade:
        """Record the source as it is now as a new build of components that were deployed before, so that run_experiment
        can try a change. Components that are new are for the user: `evalscribe deployments create`."""
        return await watched(ctx, lambda _: _recorded(self.place, name, like, write=write))


async def _recorded(place: Place, name: str, like: str, *, write: bool) -> DeploymentMade:
    from evalscribe.app.deployments import created, found

    with place.experiments() as workspace:
        before = found(workspace.store.experiments, like)
        told = DeploymentMade(
            written=False,
            message="Nothing was recorded. Call again with write=true.",
            id=None,
            name=name,
            components=tuple(f"{one.name}={one.shown}" for one in before.components),
            folder=before.folder,
        )
        if not write:
            return told
        made = await created(workspace, before.components, folder=Path(before.folder), name=name)
    done = {"written": True, "id": made.deployment.id, "source": made.deployment.build}
    message = f"Recorded; run_experiment tries it with deployment_id `{name}`."
    return told.model_copy(update={**done, "message": message if made.new else f"It is there already. {message}"})
