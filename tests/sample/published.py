"""The reports about the sample in `reports/`: `cd tests && python -m sample.published` writes them anew."""

import subprocess
import sys
import tempfile
from pathlib import Path

from sample.remake import texts

REPORTS = Path(__file__).parents[2] / "reports"
DATE = "2026-11-02"


def analysed() -> dict[str, str]:
    """Name below `reports/` and text of each report after the sample was analysed in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["analyze", "sample", "--judge", "rules", "--reports", "reports", "--date", DATE, "--quiet"]
        subprocess.run([sys.executable, "-m", "evalscribe", *command], cwd=folder, check=True, capture_output=True)
        return texts(Path(folder) / "reports")


if __name__ == "__main__":
    for name, text in analysed().items():
        (REPORTS / name).parent.mkdir(parents=True, exist_ok=True)
        (REPORTS / name).write_text(text, "utf-8")
