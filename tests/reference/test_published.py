from __future__ import annotations

from tcpf_lab.report.claims.published import published


def test_a_cell_has_the_printed_numbers() -> None:
    assert published("A", "NoMark+RED", 100) == {
        "timeouts": 1322.0,
        "loss_percent": 9.01,
        "goodput_bytes_per_s": 9015.0,
        "goodput_cov": 0.38,
    }


def test_the_misprinted_goodput_is_read_in_kilobytes() -> None:
    cell = published("D", "TCPF(O)+RIO", 100)
    assert cell is not None
    assert cell["goodput_bytes_per_s"] == 9892.0


def test_what_was_not_published_is_none() -> None:
    assert published("A", "NoMark+RED", 10) is None
    assert published("E", "NoMark+RED", 100) is None
    assert published("A", "nomark+red", 100) is None


def test_changing_an_answer_does_not_change_the_table() -> None:
    cell = published("A", "NoMark+RED", 100)
    assert cell is not None
    cell["timeouts"] = 0.0
    assert published("A", "NoMark+RED", 100) != cell
