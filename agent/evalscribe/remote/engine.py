"""Open an engine: `local` in this process, `ray` on many machines. Ray is imported only if chosen."""

from evalscribe.errors import UsageError
from evalscribe.model.protocols import Engine
from evalscribe.remote.local import LocalEngine
from evalscribe.remote.ray import RayEngine
from evalscribe.settings import Settings
from evalscribe.settings.config import ENVIRONMENT, Origin

LOCAL, RAY = "local", "ray"


def open_engine(settings: Settings, name: str | None = None) -> Engine:
    """Open the named engine, or the configured one.

    Raises `UsageError` if it does not exist or its package is missing.
    """
    chosen = name or settings.engine.value
    lanes = settings.concurrency.value
    if chosen == RAY:
        _check_cluster(settings.ray_address.origin)
        return RayEngine(lanes, settings.ray_address.value)
    if chosen != LOCAL:
        raise UsageError(f"--engine {chosen} is unknown; use {LOCAL} or {RAY}")

    return LocalEngine(lanes)


def _check_cluster(address: Origin) -> None:
    """Check who named the cluster: its operator receives keys and evidence, and can run code here."""
    if address.trust < ENVIRONMENT:
        raise UsageError(
            f"the Ray cluster's address comes from {address.where}, which may not be trustworthy\n"
            "name it with --ray-address or in the environment"
        )
