"""Pages of collections, agent runs, results and rubrics, rendered from real stores."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import NotFoundError
from evalscribe.judging.citations import resolve_output
from evalscribe.judging.requests import RequestPrompt
from evalscribe.model.evidence import Document
from evalscribe.model.record import Record
from evalscribe.model.result import AgentRunRef, CitationCounts, JudgeResult, Result, ResultSet, ResultType
from evalscribe.model.rubric import Collection, Rubric
from evalscribe.model.run import Eval, Run
from evalscribe.model.transcript import (
    AssistantMessage,
    ChatMessage,
    ToolMessage,
    Transcript,
    TranscriptToolCall,
    UserMessage,
)
from evalscribe.web import agent_runs
from evalscribe.web.agent_runs import agent_run_folder, run_folder
from evalscribe.web.bundle import open_site, write_bundle
from evalscribe.web.report_index import Scope
from evalscribe.web.site import Site
from evalscribe.workspace import Workspace
from support.fork_server import fork_server
from support.page_links import active_parts, broken_links, bundle_pages, parse_page
from support.waiting import PATIENCE_S

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) \"'\u202e\x1b[31m"
SHOP = Collection(id="shop", name="Shop")
ODD = Collection(id="../odd <b>&", name=HOSTILE)
RUN = Run(id="run-1", provider="example", model="m-1", started_at="2026-11-01T10:00:00Z")
ODD_RUN = Run(id="../../r <i>", provider="<b>p", model=HOSTILE)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "cause": {"type": "string", "enum": ["lied", "forgot"]},
        "why": {"type": "string", "citations": True},
    },
    "required": ["cause", "why"],
}
POLITE = Rubric(id="polite", rubric_text="Was it polite?", output_schema=SCHEMA)


def messages(number: int) -> tuple[ChatMessage, ...]:
    """Return `number` messages: a question, then tool calls and their results."""
    call = TranscriptToolCall(id="c", function="look_up", arguments={"order": "W1", "code": "a\nb"})
    chat: list[ChatMessage] = [UserMessage(content="I want my money back.")]
    while len(chat) < number:
        n = len(chat) + 1
        chat += [
            AssistantMessage(content=f"Looking, step {n}.", reasoning=f"Thought {n}.", tool_calls=(call,)),
            ToolMessage(content="paid\n" * 40, function="look_up", tool_call_id="c", error="late" if n == 2 else None),
        ]
    return tuple(chat[:number])


def record(id: str, chat: tuple[ChatMessage, ...], *, run: Run = RUN, **fields: Any) -> Record:
    status = fields.pop("status", "failed")
    return Record(
        run_id=run.id,
        eval=Eval(id=id, category="shop", name=fields.pop("name", id), status=status),
        metadata={"scores": {"reward": 0.5}, "task": "refund", **fields.pop("metadata", {})},
        transcripts=(Transcript(id=f"{id}-t0", messages=chat), *fields.pop("more", ())),
        **fields,
    )


LONG = record(
    "long",
    messages(450),
    more=(Transcript(id="long-t1", name="helper", messages=(UserMessage(content="Second talk."),)),),
    documents=(Document(role="output", path="answer.txt", text="one\ntwo\nthree"),),
)
SHORT = record("short", messages(3), status="passed")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """An empty folder with an open workspace."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evalscribe.toml").touch()
    with Workspace() as workspace:
        yield workspace


@pytest.fixture
def stored(workspace: Workspace) -> Workspace:
    """A collection with two agent runs, a result set about one of them, and two judge results."""
    store = workspace.store
    store.collections.add_collection(SHOP)
    store.runs.add(SHOP.id, [RUN], [LONG, SHORT])
    ref = AgentRunRef(id="long", collection_id=SHOP.id)
    subject = RequestPrompt.of((ref,), {ref: LONG}).subject
    why = (
        "It looked [T0B401:<RANGE>Looking, step 402</RANGE>] and [T1B0], the reward was [R0M.scores.reward], "
        "it wrote [T2B0:<RANGE>two</RANGE>] and invented [T0B0:<RANGE>a promise of everything</RANGE>]."
    )
    output = resolve_output({"cause": "lied", "why": why}, SCHEMA, subject)
    result_set = ResultSet(
        id="set 1", collection_id=SHOP.id, name="why/v1", output_schema=SCHEMA, created_at="2026-11-02"
    )
    common: dict[str, Any] = {"result_set_id": "set 1", "request": "q", "model": "p/m", "created_at": "2026-11-02"}
    rows = [
        Result(id="a", number=0, prompt=(ref,), output=output, user_metadata={"task": 7}, **common),
        Result(id="b", number=1, prompt=("?",), error="overloaded", final=True, **common),
        Result(id="c", number=2, prompt=("?",), **common),
    ]
    store.results.add(result_set, rows)
    default = Collection(id="default", name="default")
    store.collections.add_collection(default)
    store.collections.add_rubric("default", POLITE)
    store.collections.add_rubric("default", POLITE.model_copy(update={"rubric_text": "Was it polite and short?"}))
    judged = JudgeResult(
        id="j",
        agent_run_id="short",
        rubric_id="polite",
        rubric_version=2,
        output={"cause": "forgot", "why": "It thought [T0B1:<RANGE>Looking, step 2</RANGE>] and [T0B9]."},
        result_type=ResultType.DIRECT_RESULT,
        citations=CitationCounts(verified=1, unverified=1),
        judge="p/m",
    )
    store.collections.put_result("k", judged)
    failed = {"id": "j2", "agent_run_id": "run-1/shop/long", "output": {}, "reason": "refused", "citations": {}}
    store.collections.put_result("k2", JudgeResult(**{**dict(judged), **failed, "result_type": "failure"}))
    return workspace


@pytest.fixture
def site(stored: Workspace) -> Site:
    return open_site(stored, Scope(), token="t")


def text_of(site: Site, path: str, **query: str) -> str:
    return " ".join(parse_page(site.render(path, query)).text.split())


def test_pages_without_a_store_show_commands_and_create_none(workspace: Workspace, tmp_path: Path) -> None:
    site = open_site(workspace, Scope(), token="t")
    assert "evalscribe import FILE" in text_of(site, "collections.html")
    assert "evalscribe judge RUBRIC RUN" in text_of(site, "results.html")
    assert "comes with evalscribe" in text_of(site, "rubrics.html")
    assert "No version is stored yet" in text_of(site, "rubrics/default/failure.html")
    assert [file.name for file in tmp_path.iterdir()] == ["evalscribe.toml"]


def test_collection_page_lists_runs_and_agent_runs(site: Site) -> None:
    assert "Shop 1 2 1 1 m-1 why/v1 1 result" in text_of(site, "collections.html")
    collection = text_of(site, "collections/shop/index.html")
    assert "run-1 example/m-1 default 2026-11-01 1 1 2 none" in collection
    run = text_of(site, "collections/shop/run/run-1/index.html")
    assert "example/m-1: 1 of 2 evals passed" in run
    assert "shop/long failed reward 0.5 I want my money back." in run
    assert "evalscribe analyze run-1" in run


def test_run_page_is_filtered_by_query_parameters(site: Site) -> None:
    path = "collections/shop/run/run-1/index.html"
    assert "shop/short" not in text_of(site, path, status="failed")
    assert "shop/long" not in text_of(site, path, q="SHORT")
    assert "No agent run matches" in text_of(site, path, q="nothing like it")


def test_agent_runs_of_a_run_are_paginated(stored: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_runs, "ON_PAGE", 1)
    site, path = open_site(stored, Scope(), token="t"), "collections/shop/run/run-1/index.html"
    first, second = text_of(site, path), text_of(site, path, page="2")
    assert ("shop/long" in first, "shop/short" in first) == (True, False)
    assert ("shop/long" in second, "shop/short" in second) == (False, True)
    assert 'href="index.html?page=2"' in site.render(path)


def test_agent_run_page_shows_the_conversation(site: Site) -> None:
    path = f"{agent_run_folder('shop', 'run-1', 'long')}/index.html"
    page = parse_page(site.render(path))
    text = " ".join(page.text.split())
    assert [id for id in page.ids if id in ("m1", "m200", "m201", "metadata", "metadata-task")] == [
        "metadata",
        "metadata-task",
        "m1",
        "m200",
    ]
    assert "450 messages, 1 to 200" in text
    assert "message 2 assistant Reasoning 10 characters Thought 2. Looking, step 2. calls look_up" in text
    assert 'code: a b order: "W1"' in text
    assert "The tool failed: late" in text
    assert "paid … 200 characters" in text
    assert "polite@2 by p/m refused" in text


def test_messages_are_paginated_by_200_with_anchors(site: Site) -> None:
    folder = agent_run_folder("shop", "run-1", "long")
    last = parse_page(site.render(f"{folder}/t0-2.html"))
    assert [id for id in last.ids if id in ("m400", "m401", "m450", "m451")] == ["m401", "m450"]
    assert "Second talk." in text_of(site, f"{folder}/t1-0.html")
    for name in ("t0-0", "t0-3", "t2-0", "t0-m0", "t0-m451", "t9-m1", "else"):
        with pytest.raises(NotFoundError):
            site.render(f"{folder}/{name}.html")


def test_long_message_is_complete_on_its_own_page(stored: Workspace) -> None:
    text = "x" * 50_000 + "END"
    stored.store.runs.add(SHOP.id, [RUN], [record("big", (UserMessage(content=text),))])
    site, folder = open_site(stored, Scope(), token="t"), agent_run_folder("shop", "run-1", "big")
    page = site.render(f"{folder}/index.html")
    assert "END" not in page
    assert 'href="t0-m1.html"' in page
    assert text in site.render(f"{folder}/t0-m1.html")


def test_citation_links_to_the_quoted_text(site: Site) -> None:
    (path,) = (path for path in open_site(site.workspace, Scope()).paths() if path.startswith("results/set/"))
    html, folder = site.render(path), f"../../../{agent_run_folder('shop', 'run-1', 'long')}"
    for link in (
        f"{folder}/t0-2.html#m402",
        f"{folder}/t1-0.html#m1",
        f"{folder}/index.html#metadata-scores",
        f"{folder}/documents.html#output-answer.txt-L2",
    ):
        assert f'href="{link}"' in html
    text = text_of(site, path)
    assert "“a promise of everything” unverified" in text
    assert "4 verified, 1 unverified" in text
    assert "task: 7 shop/long" in text
    assert "overloaded" in text
    assert "no answer yet" in text


def test_results_are_filtered_by_label_and_citation_status(site: Site) -> None:
    path = "results/set/set~201/index.html"
    assert "1 result" in text_of(site, path, label="lied", checked="unverified")
    assert "No result matches" in text_of(site, path, label="forgot")
    assert "No result matches" in text_of(site, path, checked="verified")


def test_citations_in_judge_results_resolve_to_stored_messages(site: Site) -> None:
    assert "polite@2 p/m 1 1" in text_of(site, "results.html")
    path = "results/rubric/polite~402~20p~2fm/index.html"
    html = site.render(path)
    assert f'href="../../../{agent_run_folder("shop", "run-1", "short")}/index.html#m2"' in html
    text = text_of(site, path)
    assert "“Looking, step 2”" in text
    assert "[T0B9] unverified" in text
    assert "shop/long refused" in text
    agent_run = text_of(site, f"{agent_run_folder('shop', 'run-1', 'short')}/index.html")
    assert "polite@2 by p/m cause forgot" in agent_run


def test_rubric_page_shows_changes_between_versions(site: Site) -> None:
    text = text_of(site, "rubrics/default/polite.html")
    assert "Rubric polite version 2" in text
    assert "Changed since version 1" in text
    assert "-rubric_text: Was it polite? +rubric_text: Was it polite and short?" in text
    assert "1 result" not in text_of(site, "rubrics/default/failure.html")
    assert "2 results of version 2 by p/m" in text


def test_every_bundle_link_resolves_to_a_file_and_anchor(stored: Workspace, tmp_path: Path) -> None:
    write_bundle(stored, Scope(), tmp_path / "bundle")
    pages = bundle_pages(tmp_path / "bundle")
    assert len(pages) > 15
    assert list(broken_links(tmp_path / "bundle", pages)) == []


def test_bundle_contains_the_newest_and_the_cited_agent_runs(
    stored: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_runs, "MOST_IN_BUNDLE", 2)
    newer = Run(id="run-2", provider="example", model="m-2")
    several = [record(f"n{n}", messages(1), run=newer, status="passed" if n < 4 else "failed") for n in range(6)]
    stored.store.runs.add(SHOP.id, [newer], several)
    write_bundle(stored, Scope(), tmp_path / "bundle")
    pages = bundle_pages(tmp_path / "bundle")
    folders = {Path(path).parent.name for path in pages if "/agent/" in path}
    assert folders == {"n4", "n5", "long", "short"}
    text = " ".join(pages["collections/shop/run/run-2/index.html"].text.split())
    assert "2 of 6 agent runs are in these files" in text
    assert "evalscribe view" in text
    assert list(broken_links(tmp_path / "bundle", pages)) == []


def test_report_scope_excludes_other_runs(stored: Workspace) -> None:
    site = open_site(stored, Scope(folder="example/other"))
    assert [path for path in site.paths() if path.startswith(("collections/", "results/"))] == []
    assert "run-1" not in site.render("collections.html")
    with pytest.raises(NotFoundError):
        site.render("collections/shop/run/run-1/index.html")


def test_hostile_text_is_escaped_on_collection_and_result_pages(stored: Workspace, tmp_path: Path) -> None:
    store = stored.store
    call = TranscriptToolCall(id=HOSTILE, function=HOSTILE, arguments={HOSTILE: HOSTILE})
    chat = (
        UserMessage(content=HOSTILE),
        AssistantMessage(content=HOSTILE, reasoning=HOSTILE, model=HOSTILE, tool_calls=(call,)),
        ToolMessage(content=HOSTILE, function=HOSTILE, error=HOSTILE, metadata={HOSTILE: HOSTILE}),
    )
    odd = record(
        "../e <u>",
        chat,
        run=ODD_RUN,
        name=HOSTILE,
        metadata={HOSTILE: HOSTILE},
        more=(Transcript(id=HOSTILE, name=HOSTILE, messages=chat),),
        documents=(Document(role="output", path=HOSTILE, text=HOSTILE),),
        missing=(HOSTILE,),
    )
    store.collections.add_collection(ODD)
    store.runs.add(ODD.id, [ODD_RUN], [odd])
    store.collections.add_rubric(ODD.id, Rubric(id=HOSTILE, rubric_text=HOSTILE))
    ref = AgentRunRef(id=odd.eval.id, collection_id=ODD.id)
    why = f"{HOSTILE} [T0B0:<RANGE>alert(1)</RANGE>] [T0B1:<RANGE>{HOSTILE} not</RANGE>]"
    output = resolve_output({"cause": HOSTILE, "why": why}, SCHEMA, RequestPrompt.of((ref,), {ref: odd}).subject)
    store.results.add(
        ResultSet(id=HOSTILE, collection_id=ODD.id, name=HOSTILE, created_at=HOSTILE),
        [
            Result(
                id="h",
                result_set_id=HOSTILE,
                number=0,
                request="q",
                prompt=(ref,),
                output=output,
                user_metadata={HOSTILE: HOSTILE},
                model="p/m",
                created_at=HOSTILE,
            )
        ],
    )
    write_bundle(stored, Scope(), tmp_path / "bundle")
    pages = bundle_pages(tmp_path / "bundle")
    assert {path: parts for path, page in pages.items() if (parts := active_parts(page))} == {}
    assert list(broken_links(tmp_path / "bundle", pages)) == []
    assert not any("\x1b" in page.text or "\u202e" in page.text for page in pages.values())
    with_text = [path for path, page in pages.items() if "<script>alert(1)</script>" in page.text]
    assert len(with_text) > 8
    assert sorted(tmp_path.iterdir()) == sorted(
        tmp_path / name for name in (".evalscribe", "bundle", "evalscribe.toml")
    )


def test_damaged_store_is_reported_on_the_page(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / ".evalscribe").mkdir()
    (tmp_path / ".evalscribe" / "store.db").write_text("no database " * 1000)
    site = open_site(workspace, Scope(), token="t")
    for path in ("collections.html", "results.html", "rubrics.html", "accuracy.html"):
        assert "store.db is damaged" in text_of(site, path)
    assert text_of(site, "runs.html")
    assert "collections.html" in list(site.paths())


def test_real_trajectories_are_imported_and_rendered_as_pages(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evalscribe.toml").touch()
    files = [
        real_data / "tau-bench" / "gpt-4o-airline-tasks-0-24.json",
        *sorted((real_data / "formats" / "claude_code").glob("*.jsonl")),
        *sorted((real_data / "formats" / "otlp").glob("*-spans.json")),
        real_data / "formats" / "promptfoo" / "echo",
        real_data / "inspect" / "log.eval",
    ]
    program = ["-m", "evalscribe", "import", *map(str, files), "--collection", "all", "--quiet"]
    fork_server.run(program, tmp_path, timeout=PATIENCE_S).check_returncode()
    with Workspace() as workspace:
        written = write_bundle(workspace, Scope(), tmp_path / "bundle")
        runs = workspace.store.runs.runs("all")
    pages = bundle_pages(tmp_path / "bundle")
    assert sum("/agent/" in path and path.endswith("index.html") for path in pages) == agent_runs.MOST_IN_BUNDLE
    assert all(f"{run_folder('all', run.id)}/index.html" in pages for run in runs)
    assert list(broken_links(tmp_path / "bundle", pages)) == []
    assert written.size < 30_000_000
