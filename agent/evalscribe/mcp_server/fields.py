"""Arguments that several tools share, each described once."""

from typing import Annotated

from pydantic import Field

Collection = Annotated[
    str | None,
    Field(description="A collection, by name or id. Default: the server's or configured one, else the only one."),
]
Limit = Annotated[int, Field(ge=1, le=500, description="How many to give at most.")]
Offset = Annotated[int, Field(ge=0, description="How many to leave out; `next_offset` of the last call.")]
At = Annotated[int, Field(ge=0, description="Character to begin at; `next_offset` of the last call.")]
Characters = Annotated[int, Field(ge=500, le=50_000, description="Characters to give at most.")]
Run = Annotated[
    str,
    Field(
        description="A run: its id or the beginning of it, its URL, a snapshot folder inside the workspace, "
        "or `sample`."
    ),
]
Where = Annotated[
    str | None,
    Field(description="Only of these: a condition in SQL over `agent_runs`, or a SELECT that gives `id`."),
]
Judge = Annotated[
    str | None,
    Field(
        description="`rules` (free, the default) or a model as `provider/model`, "
        "which is asked only with a `budget_usd` above 0."
    ),
]
Budget = Annotated[
    float,
    Field(
        ge=0,
        description="US dollars that this call may spend, at most the workspace's own budget. "
        "0 (the default) asks no model: rules judge, or with a model in `judge` only the estimate is told.",
    ),
]
MaxTokens = Annotated[
    int | None, Field(ge=1, description="Tokens that this call may use; needed for a model without a known price.")
]
Experiment = Annotated[str, Field(min_length=1, description="An experiment, by name or id.")]
ExperimentRun = Annotated[
    str, Field(min_length=1, description="A run of an experiment: its id, the beginning of it, or its name.")
]
Start = Annotated[
    bool,
    Field(
        description="Start it: the user's own code runs once for each try. Default: false, which only tells what "
        "would be run."
    ),
]
RunBudget = Annotated[
    float,
    Field(
        ge=0,
        description="US dollars that the run may spend in all, at most the workspace's own budget. "
        "0 (the default) asks no model: an experiment that needs one is then not started.",
    ),
]
WaitSeconds = Annotated[
    int, Field(ge=0, le=300, description="Wait at most so long for the run's end; it goes on after that. Default: 0.")
]
WriteReport = Annotated[bool, Field(description="Write the report into the reports folder. Default: false.")]
