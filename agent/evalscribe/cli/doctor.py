"""`evalscribe doctor`."""

from evalscribe.cli import options, output
from evalscribe.cli.checks import Check, exit_code, list_checks, run_checks
from evalscribe.interrupts import run_until_signal
from evalscribe.settings import Options
from evalscribe.workspace import Workspace


def doctor(
    reports: options.Reports = None,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
) -> int:
    """Show what is configured with its origin, what can be reached, and what is missing.

    Exit codes: 0 no problem, 64 a setting does not work, 77 a key is refused, 69 a service does not answer.
    """

    given = Options(reports=reports, deployment=deployment, key_file=key_file, env_file=env_file)
    workspace = Workspace(given)

    async def main() -> tuple[Check, ...]:
        async with workspace:
            return await run_checks(list_checks(workspace))

    found = run_until_signal(main())
    output.print_checks(workspace.settings.describe(), found)
    return exit_code(found)
