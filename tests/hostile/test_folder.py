"""Links, pipes, databases, settings and templates of an untrusted folder harm nothing outside it."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from evalscribe.errors import AccessError, UsageError
from evalscribe.ids import content_id
from evalscribe.prompts.templates import Prompts
from evalscribe.settings import Options, load
from evalscribe.store.analyses import open_store
from support.hostile_runs import RUN_ID, Command, evalscribe, snapshot

Analyze = Callable[[], tuple[int, str]]
PRECIOUS = "precious\n"
LOCK = f"{RUN_ID}-{content_id(RUN_ID)[-12:]}.lock"
REPORT = "reports/example/m-1/jn7hosti_2026-11-02.md"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A checkout to work in, beside a run to analyse and a folder `outside` that must stay unchanged."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "file").write_text(PRECIOUS)
    with closing(sqlite3.connect(outside / "foreign.db")) as foreign, foreign:
        foreign.execute("CREATE TABLE mine (x)")
    snapshot(tmp_path / "run")
    (tmp_path / "work" / ".git").mkdir(parents=True)
    return tmp_path / "work"


def untouched(outside: Path) -> bool:
    with closing(sqlite3.connect(outside / "foreign.db")) as foreign:
        tables = foreign.execute("SELECT name FROM sqlite_master").fetchall()
    names = sorted(path.name for path in outside.iterdir())
    mode = outside.stat().st_mode & 0o777
    whole = (outside / "file").read_text() == PRECIOUS
    return whole and names == ["file", "foreign.db"] and tables == [("mine",)] and mode == 0o755


@pytest.fixture
def analyze(work: Path, command: Command) -> Analyze:
    """Analyse the run; return the exit code and standard error."""

    def analyze() -> tuple[int, str]:
        arguments = ("analyze", str(work.parent / "run"), "--judge", "rules", "--date", "2026-11-02")
        done = command(work, *arguments)
        return done.returncode, done.stderr.decode()

    return analyze


STORES: dict[str, Callable[[Path, Path], None]] = {
    "the store": lambda store, outside: store.rmdir() or store.symlink_to(outside),  # type: ignore[func-returns-value]
    "the database": lambda store, outside: (store / "store.db").symlink_to(outside / "foreign.db"),
    "its log": lambda store, outside: (store / "store.db-wal").symlink_to(outside / "file"),
    "the checkpoints": lambda store, outside: (store / "checkpoints.db").symlink_to(outside / "foreign.db"),
    "the lock": lambda store, outside: (store / LOCK).symlink_to(outside / "file"),
    "the upgrade's lock": lambda store, outside: (store / "store.upgrade.lock").symlink_to(outside / "file"),
    "a new file": lambda store, outside: (store / ".gitignore").symlink_to(outside / "new"),
}


@pytest.mark.parametrize("planted", STORES)
def test_symlink_in_the_store_is_refused(planted: str, work: Path) -> None:
    (work / ".evalscribe").mkdir()
    STORES[planted](work / ".evalscribe", work.parent / "outside")
    with pytest.raises(AccessError, match="symbolic link"):
        open_store(work / ".evalscribe")
    assert untouched(work.parent / "outside")


def test_symlinked_lock_stops_the_command_without_a_report(work: Path, analyze: Analyze) -> None:
    (work / ".evalscribe").mkdir()
    STORES["the lock"](work / ".evalscribe", work.parent / "outside")
    code, error_text = analyze()
    assert (code, "symbolic link" in error_text) == (77, True)
    assert untouched(work.parent / "outside")
    assert not (work / "reports").exists()


@pytest.mark.parametrize("name", ["store.db", "checkpoints.db", LOCK, ".gitignore"])
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_pipe_or_folder_in_the_store_is_reported_or_ignored(name: str, kind: str, work: Path, analyze: Analyze) -> None:
    (work / ".evalscribe").mkdir()
    planted = work / ".evalscribe" / name
    os.mkfifo(planted) if kind == "pipe" else planted.mkdir()
    code, error_text = analyze()
    assert code in (0, 65, 69, 77), error_text
    assert "bug" not in error_text


@pytest.mark.parametrize("link", ["reports", "reports/example", "reports/example/m-1", REPORT])
@pytest.mark.parametrize("target", ["outside", "outside/file", "itself"])
def test_reports_are_not_written_through_symlinks(link: str, target: str, work: Path, analyze: Analyze) -> None:
    planted = work / link
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.symlink_to(planted if target == "itself" else work.parent / target)
    code, error_text = analyze()
    assert code in (64, 65, 77), error_text
    assert untouched(work.parent / "outside")


def test_pipe_among_the_reports_is_not_read(work: Path, analyze: Analyze) -> None:
    (work / REPORT).parent.mkdir(parents=True)
    os.mkfifo(work / REPORT.replace("jn7hosti", "earlier"))
    (work / REPORT.replace("jn7hosti", "folder")).mkdir()
    (work / os.fsdecode(b"reports/example/m-1/\xff\xfe_2020-01-01.md")).write_text("# m-1\n")
    code, error_text = analyze()
    assert code == 0, error_text


@pytest.mark.parametrize(
    "text",
    [
        'reports = "../outside"',
        'reports = "/"',
        'reports = "a\\u0000b"',
        "concurrency = 1000000",
        "concurrency = " + "9" * 400,
        "budget = 1e999",
        "budget = nan",
        "judge = " + "[" * 5000,
        '[sources.convex]\nvisualizer = "javascript:alert(1)"',
        'page_url = "javascript:alert(1)"',
        'page_url = "https://evals.example/?a=)"',
        '[sources.convex]\nvisualizer = "https://user:pass@evil.example"',
        "[tracing]\ntarget = 'https://evil.example'",
        "\ud800",
        "x = 1\n" * 500_000,
    ],
    ids=lambda text: text[:30],
)
def test_hostile_settings_are_a_usage_error(text: str, work: Path) -> None:
    (work / "evalscribe.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(UsageError) as refused:
        load(Options(), work, {})
    assert len(str(refused.value)) < 400
    assert not (work / "reports").exists()


def test_pipes_in_place_of_settings_files_are_ignored(work: Path) -> None:
    for name in ("evalscribe.toml", ".env", ".env.local"):
        os.mkfifo(work / name)
    assert load(Options(), work, {}).concurrency.value == 4


TEMPLATE = "classify/system.md.j2"


def template(work: Path, text: str) -> Path:
    path = work / "prompts" / TEMPLATE
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.system('touch pwned') }}",
        "{{ lipsum.__globals__['os'].popen('touch pwned').read() }}",
        "{{ ''|attr('__class__') }}",
        "{% for x in range(10 ** 9) %}{% endfor %}",
        "{% include '/etc/passwd' %}",
        "{% include '../../outside/file' %}",
        "{% import 'os' as os %}",
        "{{ secret }}",
        "{{ 1 / 0 }}",
        "{% if %}",
    ],
)
def test_hostile_prompt_template_is_refused(text: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    template(work, text)
    with pytest.raises(UsageError, match=r"template"):
        Prompts(work).render(TEMPLATE)
    assert not (work / "pwned").exists()


def test_rules_judge_reads_no_workspace_template(work: Path, analyze: Analyze) -> None:
    endless = "{% for x in range(99999) %}{% for y in range(99999) %}{% endfor %}{% endfor %}"
    template(work, endless).with_name("case.md.j2").write_text(endless)
    code, error_text = analyze()
    assert code == 0, error_text


def test_prompts_folder_linked_outside_the_workspace_is_refused(work: Path) -> None:
    (work / "prompts").symlink_to(work.parent)
    with pytest.raises(UsageError, match="leads out"):
        Prompts(work)
    (work / "prompts").unlink()
    (work / "prompts").symlink_to(work / "prompts")
    assert Prompts(work).overrides() == ()


def test_template_pipe_is_ignored_and_large_template_is_refused(work: Path) -> None:
    path = template(work, "")
    path.unlink()
    os.mkfifo(path)
    assert Prompts(work).source(TEMPLATE) == Prompts().source(TEMPLATE)
    path.unlink()
    path.write_text("x" * 2_000_000)
    with pytest.raises(UsageError, match="too large"):
        Prompts(work).render(TEMPLATE)


@pytest.mark.parametrize("name", ["x" * 6000, "a\x1bb", "../outside/none", ".", "/"])
def test_invalid_report_name_exits_with_66(name: str, work: Path, command: Command) -> None:
    done = command(work, "reports", "show", name)
    assert done.returncode == 66, done.stderr


def test_arguments_that_are_not_utf8_are_refused(work: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    done = evalscribe(work, b"analyze", b"\xff", EVALSCRIBE_JUDGE="rules")
    assert done.returncode in (64, 66), done.stderr
    monkeypatch.setenv("EVALSCRIBE_JUDGE", "rules")
    for arguments in (("reports", "show"), ("explain", "sample")):
        done = command(work, *arguments, os.fsdecode(b"\xff"))
        assert done.returncode in (64, 66), done.stderr


def test_environment_that_is_not_utf8_causes_no_crash(work: Path) -> None:
    done = evalscribe(work, "doctor", EVALSCRIBE_JUDGE="\udcff", ANTHROPIC_BASE_URL="\udcfe\x1b[2J")
    assert done.returncode in (0, 64), done.stderr


PICKLE = "cos\\nsystem\\n(S'touch {ran}'\\ntR."
ATTACKS = {
    "pickle": '{{ tags[0].parse_raw("' + PICKLE + """", content_type='application/x-pickle', allow_pickle=True) }}""",
    "a file": "{{ tags[0].parse_file('{secret}') }}",
    "a chain": "{{ tags[0].__class__.__mro__[-1].__subclasses__() }}",
    "attr": "{{ (tags[0] | attr('parse_raw'))('{}') }}",
    "map": "{{ tags | map(attribute='parse_raw') | list }}",
    "a global": "{{ lipsum.__globals__['os'].system('touch {ran}') }}",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_judging_template_runs_no_code(
    attack: str, work: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, secret = work.parent / "ran", work.parent / "outside/file"
    template = work / "prompts/judging/tag.md.j2"
    template.parent.mkdir(parents=True)
    text = ATTACKS[attack].replace("{ran}", str(ran)).replace("{secret}", str(secret))
    template.write_text(f"Tags:\n{text}\n")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    # Pytest turns warnings into errors in this process, which would stop the pickle attack too early.
    called = evalscribe if attack == "pickle" else command
    done = called(work, "analyze", "sample", "--cascade", "--dry-run")
    error_text = done.stderr.decode()
    assert (done.returncode, ran.exists(), PRECIOUS.strip() in error_text + done.stdout.decode()) == (
        64,
        False,
        False,
    ), error_text
    assert "template judging/tag.md.j2:2 cannot be rendered" in error_text
