"""Judges under test: the judges of `analyze` and `judge`, opened as targets of experiments."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing

from evalscribe import ports
from evalscribe.app.experiments.judge_target import FailureTarget, SubjectTarget
from evalscribe.app.judging.judges import Made
from evalscribe.errors import UsageError
from evalscribe.experiment import JudgeTarget
from evalscribe.judging.classifier.labels import DEFAULT, labels
from evalscribe.rubric import Rubric
from evalscribe.settings import Settings
from evalscribe.settings.place import COMMAND_LINE, Origin, Value
from evalscribe.wiring.analysts import Bench
from evalscribe.wiring.judges import Maker
from evalscribe.wiring.judging import CASCADE, Judges
from evalscribe.wiring.models import RULES
from evalscribe.wiring.shelf import shelf
from evalscribe.wiring.stores import store


@asynccontextmanager
async def open_judge_target(
    found: Settings, target: JudgeTarget, models: ports.Models
) -> AsyncIterator[FailureTarget | SubjectTarget]:
    """Raises `EvalscribeError` where the judge cannot be asked, or by no such rubric."""
    with ExitStack() as opened:
        books = opened.enter_context(closing(shelf(found)))
        bench = Bench(_judged_by(found, target.judge), models, lambda: books)
        rubric = bench.rubric(target.rubric)
        if judges_failures(target, rubric):
            yield _failures(bench, target, opened.enter_context(closing(store(found))))
        else:
            yield _subjects(bench, target, rubric, models, Made(books))


def judges_failures(target: JudgeTarget, rubric: Rubric) -> bool:
    """Whether the rubric asks what an analysis asks of a failed eval."""
    if target.judge == RULES:
        return rubric.id == DEFAULT
    try:
        labels(rubric)
    except UsageError:
        return False
    return True


def _failures(bench: Bench, target: JudgeTarget, kept: ports.Store) -> FailureTarget:
    asked = bench.models(cascade=target.judge == CASCADE)
    rubric = target.rubric if asked else None
    first, again = (bench.analyst(asked, rubric, kept, fresh=fresh).judge for fresh in (False, True))
    return FailureTarget(first, again, kept)


def _subjects(bench: Bench, target: JudgeTarget, rubric: Rubric, models: ports.Models, made: Made) -> SubjectTarget:
    makers = (Maker(models, bench.prompts, made, fresh=fresh) for fresh in (False, True))
    first, again = (Judges(rubric, bench, maker).loaded(target.judge) for maker in makers)
    return SubjectTarget(first, again, made.knew)


def _judged_by(found: Settings, judge: str) -> Settings:
    """The settings with the experiment's judge in place of any other; a cascade is as evalscribe.toml has it."""
    named = Value[str | None](
        value=None if judge == CASCADE else judge,
        origin=Origin(where="the experiment", trust=0 if judge == CASCADE else COMMAND_LINE),
    )
    return found.model_copy(update={"judge": named})
