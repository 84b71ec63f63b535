"""The sample's report with its store, and dossiers of hand-made failures."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evalscribe.cli import run
from evalscribe.model.analysis import Analysis, AnalyzedRun, FindingSummary, RecommendationSummary
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.run import Eval, Run
from evalscribe.reports.discussion.dossier import ReportEvidence
from evalscribe.reports.reading import read_report
from evalscribe.store.analyses import AnalysisStore, open_store

Made = Callable[..., ReportEvidence]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnalysisStore]:
    with closing(open_store(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert run(["analyze", "sample", "--judge", "rules", "--date", "2026-11-02", "--quiet"]) == 0
    return folder


@pytest.fixture
def sample_data(sample_folder: Path) -> Path:
    """The data of the sample's report."""
    (path,) = sample_folder.rglob("smp7q2ka*.json")
    return path


@pytest.fixture
def sample(sample_folder: Path) -> Iterator[ReportEvidence]:
    (path,) = sample_folder.rglob("smp7q2ka*.md")
    text = path.read_text("utf-8")
    with closing(open_store(sample_folder / ".evalscribe")) as opened:
        data = path.with_suffix(".json").read_text("utf-8")
        yield ReportEvidence(path.name, text, read_report(text, path.name, data), opened)


@pytest.fixture
def dossier_of(store: AnalysisStore) -> Made:
    """A dossier of one failure for each tuple of documents."""

    def make(
        *failures: tuple[Document, ...], text: str = "# A report\n1. wrong", stored: bool = True
    ) -> ReportEvidence:
        evals = [Eval(id=f"e{n}", category="cat", name=f"task-{n}") for n in range(1, len(failures) + 1)]
        if stored:
            store.put_run(Run(id="run1", provider="p", model="m", failures=tuple(evals)))
            for eval, documents in zip(evals, failures, strict=True):
                store.put_evidence("run1", Evidence(eval=eval, documents=documents))
        findings = tuple(
            FindingSummary(n=n, eval=eval.path, classification="MODEL_FAULT") for n, eval in enumerate(evals, 1)
        )
        advice = RecommendationSummary(id="R1", group="eval", text="say which end", evals=(evals[0].path,))
        analysis = Analysis(run=AnalyzedRun(id="run1"), findings=findings, recommendations=(advice,))
        return ReportEvidence("report.md", text, analysis, store)

    return make
