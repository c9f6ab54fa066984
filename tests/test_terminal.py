"""What is printed stands there as it is, whatever it is made of, and fits a terminal."""

from __future__ import annotations

import io
import os
import signal
import time
from pathlib import Path

import pytest
import typer
from rich.console import Console

from tcpf_lab.base.errors import InterruptedRunError
from tcpf_lab.cli import console as terminal
from tcpf_lab.cli import main
from tcpf_lab.cli.console import run_progress
from tcpf_lab.metrics.capture import describe
from tcpf_lab.report.captures import capture_tables
from tcpf_lab.trace.analysis import analyse

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
    terminal.show(next(capture_tables(CAPTURE | {"file": f"{MARKED}.pcap"}, 80)))
    with run_progress(terminal._err) as progress:
        progress.add_task(MARKED, total=1)
    assert screen.getvalue().count(MARKED) == 4


EVIL = "a\x1b]0;gone\x07\nb"


def test_no_name_reaches_the_terminal_as_a_command(monkeypatch, capsys):
    text = io.StringIO()
    for name in ("_out", "_err"):
        monkeypatch.setattr(terminal, name, terminal._Harmless(file=text, width=80))
    terminal.complain(EVIL)
    terminal.tell(EVIL)
    terminal.show(terminal.plain_table((EVIL,), [(EVIL,)]))
    terminal.show(next(capture_tables(CAPTURE | {"file": f"{EVIL}.pcap"}, 80)))
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
    console = Console(width=60, file=io.StringIO())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "_out", console)
        table = terminal.plain_table(columns, [["TCPF+RIO", "40 ms", "1 MB", "1", "-", "1"]])
    console.print(table)
    words = console.file.getvalue().split()  # type: ignore[attr-defined]
    assert {"topology.", "chain.", "delay", "out_max", "TCPF+RIO", "complete"} <= set(words)


def test_narrow_terminal_keeps_what_tells_most(screen) -> None:
    analysis = analyse(Path(__file__).parent / "data" / "senders" / "modern.pcap.zst")
    capture = describe(analysis, range(analysis.flows.size))
    for part in capture_tables(capture, 40):
        Console(file=screen, width=40).print(part)
    shown = screen.getvalue()
    assert "…" not in shown
    assert "sack_recovery       73  59.3         3" in shown
    assert "sender          resent  timeouts" in shown
