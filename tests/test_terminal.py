"""What is printed stands there as it is, whatever it is made of, and fits a terminal."""

from __future__ import annotations

import ast
import fcntl
import html
import io
import os
import pty
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import tcpf_lab
from tcpf_lab.base.errors import InterruptedRunError
from tcpf_lab.cli import console as terminal
from tcpf_lab.cli import main, plan
from tcpf_lab.cli.console import run_progress
from tcpf_lab.cli.main import VERBS
from tcpf_lab.report.captures import capture_tables
from tcpf_lab.results.command import CALLED, again, command, lines
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.inventory import load_inventory
from tcpf_lab.testbed.uml import preflight

SENDERS = Path(__file__).parent / "data" / "senders"
MARKED = "[bold]out[/bold] [/oops]"
CAPTURE = {
    "format": "pcap",
    "packets": 1,
    "duration_s": 0,
    "at": "sender",
    "flow_count": 0,
    "totals": {"flows": 0},
}


@pytest.fixture
def screen(monkeypatch):
    """Return what both streams show."""
    text = io.StringIO()
    console = Console(file=text, width=80)
    monkeypatch.setattr(terminal, "_out", console)
    monkeypatch.setattr(terminal, "_err", console)
    return text


def test_text_of_others_is_not_taken_for_markup(screen):
    terminal.complain(MARKED)
    terminal.show(terminal.plain_table(("name",), [(MARKED,)]))
    terminal.show(next(capture_tables(CAPTURE | {"file": f"{MARKED}.pcap"})))
    with run_progress(terminal._err) as progress:
        progress.add_task(MARKED, total=1)
    assert screen.getvalue().count(MARKED) == 4


EVIL = "a\x1b]0;gone\x07\nb"


def test_no_name_reaches_the_terminal_as_a_command(monkeypatch, capsys):
    text = io.StringIO()
    for name in ("_out", "_err"):
        monkeypatch.setattr(terminal, name, terminal._Harmless(file=text, width=80))
    terminal.complain(EVIL)
    terminal.notify(EVIL)
    terminal.show(terminal.plain_table((EVIL,), [(EVIL,)]))
    terminal.show(next(capture_tables(CAPTURE | {"file": f"{EVIL}.pcap"})))
    with run_progress(terminal._err) as progress:
        progress.add_task(EVIL, total=1)
    main.echo(EVIL)
    main.echo(Path(EVIL))
    said = capsys.readouterr().out + text.getvalue()
    assert not {"\x1b", "\x07"} & set(said)
    assert r"a\x1b]0;gone\x07\nb" in said  # a path is one line


@pytest.mark.parametrize("verb", ["analyze", "plan", "plot cdf", "status --results"])
def test_file_of_an_evil_name_is_named_with_escapes(lab, verb):
    Path(EVIL).write_text("[")
    _, said, complaints = lab(*verb.split(), f"./{EVIL}")
    assert r"a\x1b]0;gone\x07" in said + complaints
    assert not {"\x1b", "\x07"} & set(said + complaints)


def interrupted_twice(handled):
    """Be told to end, and again while that is handled."""
    with terminal.interruptible():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            handled.append("in peace")


@pytest.mark.parametrize(("between", "handled"), [(0.5, ["in peace"]), (0.0, [])])
def test_interrupts_right_behind_each_other_are_one(monkeypatch, between, handled):
    """The second would come amid the handling of the first, and break the locks that it holds."""
    monkeypatch.setattr(terminal, "_SAME_INTERRUPT_S", between)
    found = []
    with pytest.raises(InterruptedRunError):
        interrupted_twice(found)
    assert found == handled


def test_interrupt_that_was_made_another_exception_is_told_as_one():
    def serialized():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("of a serializer that called us") from None

    with pytest.raises(InterruptedRunError), terminal.interruptible():
        serialized()


def test_exceptions_without_an_interrupt_are_what_they_are():
    with pytest.raises(ValueError, match="as it was"), terminal.interruptible():
        raise ValueError("as it was")


def test_interrupt_outside_of_runs_is_told(monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("tcpf_lab.cli.plan.plan", interrupted)
    monkeypatch.setattr(main, "load", lambda _name: typer.main.get_command(_app(interrupted)))
    with pytest.raises(InterruptedRunError, match="interrupted"):
        main.app(["plan", "smoke.yaml"], standalone_mode=False)


def _app(body):
    app = typer.Typer()
    app.command()(lambda spec: body(spec))
    return app


def test_what_takes_long_without_a_terminal_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with terminal.busy("quick"):
        pass
    monkeypatch.setattr(terminal, "LONG_S", 0.01)
    with terminal.busy("slow"):
        time.sleep(0.2)
    assert capsys.readouterr().err == "slow\n"


def test_key_in_a_heading_breaks_behind_its_dots_where_room_is_short() -> None:
    columns = ["case", "topology.chain.delay", "queue.out_max", "complete", "failed", "missing"]
    console = Console(width=65, file=io.StringIO())
    console.print(terminal.plain_table(columns, [["TCPF+RIO", "40 ms", "1 MB", "1", "-", "1"]]))
    words = console.file.getvalue().split()  # type: ignore[attr-defined]
    assert {"topology.", "chain.", "delay", "out_max", "TCPF+RIO", "complete"} <= set(words)


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_tables_are_as_wide_as_the_terminal_and_as_they_need_elsewhere(
    monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    _, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 40, 0, 0))
    with open(end, "w") as file:  # noqa: PTH123
        assert terminal._Harmless(file=file).width == 40
        monkeypatch.setenv("COLUMNS", "60")
        assert terminal._Harmless(file=file).width == 60
    text = io.StringIO()
    terminal._Harmless(file=text).print(terminal.plain_table(("x",), [("9" * 300,)]))
    assert "9" * 300 in text.getvalue()


# Commands that messages and reports print: each runs as it stands where the user was.

PACKAGE = Path(tcpf_lab.__file__).parent
Lab = Callable[..., tuple[int, str, str]]
#: A choice whose words a shell would tear apart, and a page too.
CHOICE = ("--testbed", "fake", "--results", "my results", "--only", "case=NoMark+RED")
CHOICE += ("--set", "title=It's a title of several words, which is longer than a line of a page is")
CHOICE += ("--set", "cases.NoMark+RED.marker=none", "--seeds", "1")


@pytest.fixture
def away(spec: Path, tmp_path: Path) -> Path:
    """Return an experiment whose file is not called as it is, in a directory of its own."""
    (tmp_path / "my specs").mkdir()
    shutil.copy(spec, tmp_path / "my specs" / "of mine.yaml")
    return Path("my specs/of mine.yaml")


def printed(text: str) -> list[str]:
    """Give the commands of a text, each a line or between grave accents."""
    text = text.replace("\\\n", "")
    return re.findall(rf"(?m)(?:^|`)(tcpf-lab (?:{'|'.join(VERBS)}) [^`\n]+)", text)


@given(st.lists(st.text("ab '\"\\$-=#~*", min_size=1, max_size=150), min_size=1, max_size=5))
@settings(max_examples=20)
def test_a_command_on_several_lines_is_the_same_command(words: list[str]) -> None:
    text = shlex.join(("printf", "%s\\0", *words))
    for width in (12, 88):
        broken = lines(text, width)
        assert max(map(len, broken)) <= width
        done = subprocess.run(["sh", "-c", "\n".join(broken)], capture_output=True, check=True)
        assert done.stdout.decode().split("\0")[:-1] == words


def test_a_report_prints_what_runs_as_it_stands(quick: Lab, away: Path, tmp_path: Path) -> None:
    assert quick("run", away, *CHOICE)[0] == 0
    status, _, said = quick(
        *("report", away, *CHOICE, "--format", "html", "--reference", tmp_path / "to keep")
    )
    assert status == 0, said
    for page in (tmp_path / "my results/tiny/fake/report.html", tmp_path / "to keep/tiny.html"):
        found = printed(html.unescape(re.sub("<[^>]+>", "\n", page.read_text("utf-8"))))
        assert [shlex.split(line)[1] for line in found] == ["run", "report"]
        for line in found:
            assert str(tmp_path) not in line
            assert quick(*shlex.split(line)[1:])[0] == 0, line
    assert not (tmp_path / "results").exists()


@pytest.mark.full
def test_a_pdf_can_be_copied_from(lab: Lab, away: Path, tmp_path: Path) -> None:
    assert lab("run", away, *CHOICE)[0] == 0
    pdf = tmp_path / "my results/tiny/fake/report.pdf"
    done = subprocess.run(["pdftotext", pdf, "-"], capture_output=True, text=True, check=True)
    assert "\u200b" not in done.stdout
    found = printed(done.stdout)
    assert [shlex.split(line)[1] for line in found] == ["run", "report"]
    for line in found:
        assert lab(*shlex.split(line)[1:])[0] == 0, line


@pytest.mark.parametrize(
    "words",
    [
        ("report", "my specs/of mine.yaml", *CHOICE),
        ("plot", "cdf", "my specs/of mine.yaml", *CHOICE),
    ],
)
def test_what_is_missing_is_made_by_the_command_printed(
    quick: Lab, away: Path, words: tuple[str, ...]
) -> None:
    assert away.exists()
    status, _, said = quick(*words)
    assert status == 1
    (line,) = printed(said)
    assert quick(*shlex.split(line)[1:])[0] == 0, line
    assert quick(*words)[0] == 0


def test_a_run_whose_captures_are_gone_is_made_again_where_it_is(
    lab: Lab, away: Path, tmp_path: Path
) -> None:
    lab("run", away, *CHOICE, "--keep-pcaps")
    (run,) = (path.parent for path in tmp_path.glob("my results/*/*/*/pcap"))
    shutil.rmtree(run / "pcap")
    status, _, said = lab("plot", "rtt", run)
    assert status != 0
    (line,) = printed(said)
    assert lab(*shlex.split(line)[1:])[0] == 0
    assert (run / "pcap").is_dir()


def test_a_total_says_how_to_clean_there(quick: Lab, away: Path) -> None:
    quick("run", away, *CHOICE)
    (line,) = printed(quick("status", "--results", "my results")[1])
    assert shlex.split(line) == ["tcpf-lab", "clean", "--results", "my results"]


def test_the_program_is_called_as_the_user_called_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CALLED, "./lab")
    assert command("status") == "./lab status"


def test_places_are_named_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = RunFiles(tmp_path / "results/tiny/uml/one")
    assert again(run) == "tcpf-lab run results/tiny/uml/one/run.yaml"
    assert command("run", tmp_path / "-x.yaml") == "tcpf-lab run ./-x.yaml"
    elsewhere = again(RunFiles(Path("/far/tiny/lab/one")), "--keep-pcaps")
    assert elsewhere == (
        "tcpf-lab run /far/tiny/lab/one/run.yaml --testbed lab --results /far --keep-pcaps"
    )


def test_an_inventory_is_named_so_that_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = load_inventory("two-hosts")
    assert shipped.testbed == "two-hosts"
    mine = tmp_path / "mine"
    mine.mkdir()
    text = (PACKAGE.parent / "testbeds/two-hosts.yaml").read_text()
    (mine / "other.yaml").write_text(text.replace("name: two-hosts", "name: other"))
    monkeypatch.chdir(tmp_path)
    assert load_inventory("mine/other.yaml").testbed == "mine/other.yaml"


def test_no_command_is_written_by_hand() -> None:
    """What a message prints is built by `command`: quoted, and with the program's name."""
    by_hand = re.compile(rf"tcpf-lab ({'|'.join(VERBS)})\b")
    found = [
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for text in messages(ast.parse(path.read_text()))
        if by_hand.search(text)
    ]
    # Pages of documentation show commands of every user.
    documents = ("spec/", "report/export/", "papers/index.py")
    assert [line for line in found if not line.startswith(documents)] == []


def messages(tree: ast.Module) -> Iterator[str]:
    """Yield every text of a module but its docstrings."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


# What the command line loads before it does anything.

#: What takes long to load.
HEAVY = (
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "tcpf_lab._trace",
    "paramiko",
    "tcpf_lab.metrics",
)


def loaded_by(*words: str) -> set[str]:
    """Modules that a command has loaded by the time it ends, in a process of its own."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"sys.argv = ['tcpf-lab', *{words!r}]\n"
        "from tcpf_lab.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout, "it has said what it was asked"
    return set(done.stderr.split())


def test_verbs_are_listed_without_loading_them() -> None:
    loaded = loaded_by("--help")
    assert not loaded.intersection(HEAVY)
    assert not loaded.intersection(f"tcpf_lab.cli.{verb.module}" for verb in main.VERBS.values())


def test_plan_needs_nothing_of_what_makes_or_reads_runs() -> None:
    assert not loaded_by("plan", "configA.yaml").intersection(
        {*HEAVY, "tcpf_lab.run.runner", "tcpf_lab.report"}
    )


def test_captures_are_analysed_without_what_draws() -> None:
    assert not loaded_by("analyze", "--help").intersection({"matplotlib", "tcpf_lab.run.campaign"})


def test_output_that_lacks_the_letters_of_a_name_has_their_escapes(tmp_path: Path) -> None:
    shutil.copy(SENDERS / "modern.pcap.zst", tmp_path / "日本.pcap.zst")
    done = subprocess.run(
        [sys.executable, "-m", "tcpf_lab", "analyze", "日本.pcap.zst"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SENDERS.parents[2]), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u65e5\u672c.pcap.zst" in done.stdout


@pytest.mark.parametrize(
    ("words", "limit_mb", "status"),
    [
        (("--help",), 40, 1),
        (("plan", "smoke", "--check"), 100, 0),
        (("doctor", "-h"), 100, 1),
        *(((verb, "-h"), 290, 1) for verb in ("run", "report", "analyze", "plot", "model")),
        (("run", "-h"), 1000, 0),
    ],
)
def test_a_limit_of_memory_ends_in_one_message_that_names_it(
    words: tuple[str, ...], limit_mb: int, status: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tcpf_lab", *words],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit_mb * 2**20,) * 2),
    )
    assert done.returncode == status, done.stderr
    if status:
        message, _hint = done.stderr.splitlines()
        assert f"ulimit -v (limit of address space) allows {limit_mb} MB" in message


def test_memory_that_ends_later_on_names_the_limit_too(
    lab: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(plan, "choose", no_more)
    status, _, complaint = lab("plan", "smoke")
    assert status == 1
    assert complaint.startswith("error: not enough memory: ")


def test_a_guest_larger_than_the_limit_is_refused_before_it_boots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1000 * 2**20,) * 2)
    assert "(limit of address space) allows 1000 MB" in str(preflight.memory_problem(1000))
    assert not preflight.memory_problem(100)
