"""Regenerate the sample's reports and the README picture: `cd tests && python -m sample.published`."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sample.remake import texts

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports"
DATE = "2026-11-02"
REPORT = f"example/sample-model-1/smp7q2ka_{DATE}.md"
PICTURE = ROOT / "agent/docs/report.svg"


def analysed() -> dict[str, str]:
    """Analyse the sample in an empty folder; return the text of each report by its path below `reports/`."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["analyze", "sample", "--judge", "rules", "--reports", "reports", "--date", DATE, "--quiet"]
        subprocess.run([sys.executable, "-m", "evalscribe", *command], cwd=folder, check=True, capture_output=True)
        return texts(Path(folder) / "reports")


def picture(**environment: str) -> str:
    """Return the first screen of the sample's report as an SVG by `reports show`."""
    command = ["reports", "show", REPORT, "--reports", str(REPORTS), "--format", "svg"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "evalscribe", *command],
            cwd=folder,
            env={**os.environ, **environment},
            check=True,
            capture_output=True,
        )
    return done.stdout.decode("utf-8")


if __name__ == "__main__":
    for name, text in analysed().items():
        (REPORTS / name).parent.mkdir(parents=True, exist_ok=True)
        (REPORTS / name).write_text(text, "utf-8")
    PICTURE.write_text(picture(), "utf-8")
