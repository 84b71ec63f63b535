"""`evalscribe doctor`."""

from evalscribe.cli import options


def doctor(
    reports: options.Reports = None,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
) -> int:
    """Show what is configured with its origin, what can be reached, and what is missing.

    Exit codes: 0 no problem, 64 a setting does not work, 77 a key is refused, 69 a service does not answer.
    """
    from evalscribe import wiring
    from evalscribe.app.doctor import checks, exit_code
    from evalscribe.cli.display import finish
    from evalscribe.graph.signals import run_until_signal
    from evalscribe.settings import Options
    from evalscribe.wiring.doctor import attempts

    settings = wiring.settings(Options(reports=reports, deployment=deployment, key_file=key_file, env_file=env_file))
    found = run_until_signal(checks(attempts(settings)))
    finish.diagnosis(settings.describe(), found)
    return exit_code(found)
