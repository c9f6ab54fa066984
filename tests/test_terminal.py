"""What is printed stands there as it is, whatever it is made of, and fits a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tcpf_lab import terminal
from tcpf_lab.progress import run_progress
from tcpf_lab.report.captures_shown import capture_tables

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
