"""The verbs of ``tcpf-lab model``: rio."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.base.making import require_place
from tcpf_lab.base.units import UnitError, parse_duration, parse_probability, parse_rate, parse_size
from tcpf_lab.cli import console
from tcpf_lab.cli.main import HELP_MARKUP, echo
from tcpf_lab.cli.options import AsJson, argument, option
from tcpf_lab.papers.rio.router import Scenario, spread
from tcpf_lab.spec.words import unknown

if TYPE_CHECKING:
    from tcpf_lab.papers.rio.router import Answer, Scenario, Solution


_TEXTS = tomllib.loads(Path(__file__).with_name("rio.toml").read_text(encoding="utf-8"))
#: The words of a scenario, with the usual values.
DEFAULTS: Mapping[str, str] = _TEXTS["usual"]
#: What the scenarios of Tables 1 to 3 of RR-4469 have instead; the first is the usual one.
SCENARIOS: Mapping[str, Mapping[str, str]] = _TEXTS["scenarios"]
_MOST_FLOWS = 100_000
_PACKETS = ("packets", "packet", "pkt")


def scenario_of(words: Sequence[str], base: str = "fully_overlapped") -> Scenario:
    """Read a scenario.

    Parameters
    ----------
    words : sequence of str
        ``KEY=VALUE``, keys and values as experiment files have them: a rate, sizes, times,
        probabilities. A threshold and ``tokens`` may also be in packets, ``20 packets``.
    base : str
        The scenario that has all other values, of ``SCENARIOS``.

    Returns
    -------
    Scenario
        In packets and seconds.

    Raises
    ------
    RequestError
        If a key or value is wrong.
    """
    if base not in SCENARIOS:
        message = unknown("no such scenario", base, SCENARIOS)
        raise RequestError(message, where=f"--scenario {base}")
    given = {**DEFAULTS, **SCENARIOS[base], **_pairs(words)}
    packet = _read(given, "packet", parse_size)

    def packets(key: str) -> float:
        number, _, unit = given[key].strip().partition(" ")
        if unit.strip() in _PACKETS and number.isdecimal():
            return float(number)
        return float(_read(given, key, parse_size) / packet) if number != "0" else 0.0

    thresholds = {key: packets(key) for key in ("in_min", "in_max", "out_min", "out_max")}
    interval = _read(given, "interval", parse_duration)
    if interval <= 0:
        raise RequestError("it must be longer than 0 s", where="interval")
    bucket = packets("tokens")
    return Scenario(
        delay=_delays(given),
        capacity=_read(given, "bottleneck", parse_rate) / (8 * packet),
        token_rate=bucket / interval,
        bucket=bucket,
        **_whole(thresholds),
        in_probability=_read(given, "in_probability", parse_probability),
        out_probability=_read(given, "out_probability", parse_probability),
        rto_margin=_read(given, "rto_min", parse_duration),
        extra_rtt=_read(given, "extra_rtt", parse_duration),
    )


def target_of(text: str) -> tuple[str, float]:
    """Read ``p_in=0.006``: a quantity and its limit.

    Raises
    ------
    RequestError
        If it is not of that form.
    """
    name, equals, value = text.partition("=")
    try:
        limit = float(value)
    except ValueError:
        limit = -1.0
    if not equals or not limit >= 0:
        raise RequestError(
            "not a quantity and its limit", where=f"--target {text}", hint="write p_in=0.006"
        )
    return name.strip(), limit


def _pairs(words: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise RequestError("not KEY=VALUE", where=word, hint="write out_probability=0.1")
        if key not in DEFAULTS:
            raise RequestError(unknown(f"unknown key '{key}'", key, DEFAULTS), where=word)
        pairs[key] = value
    return pairs


def _read(given: Mapping[str, str], key: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(given[key].strip())
    except UnitError as error:
        what, _, advice = error.message.partition("; ")
        raise RequestError(what, where=f"{key}={given[key]}", hint=advice) from None


def _whole(thresholds: Mapping[str, float]) -> dict[str, Any]:
    """Thresholds in whole packets."""
    for key, value in thresholds.items():
        if value != int(value):
            raise RequestError(
                f"{value:g} packets: the model counts the queue in whole packets",
                where=key,
                hint="choose a multiple of packet",
            )
    return {key: int(value) for key, value in thresholds.items()}


def _delays(given: Mapping[str, str]) -> tuple[float, ...]:
    """Read one delay for all flows, or two for the ends of a range, spread evenly."""
    text = given["flows"].strip()
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_FLOWS:
        message = f"write a whole number from 1 to {_MOST_FLOWS}"
        raise RequestError(message, where=f"flows={text}")
    first, dots, last = given["delay"].partition("..")
    ends = [_read({"delay": end}, "delay", parse_duration) for end in (first, last) if end.strip()]
    if not ends or (dots and len(ends) != 2):
        raise RequestError(
            "not a delay", where=f"delay={given['delay']}", hint="write 100 ms, or 100 ms..298 ms"
        )
    return spread(ends[0], ends[-1], int(text))


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=HELP_MARKUP,
    help="Analytic models: rio.",
)


@app.callback()
def common() -> None:
    """Make ``rio`` a verb of its own, although there is one model."""


@app.command()
def rio(
    words: Annotated[list[str] | None, argument("model [KEY=VALUE]...")] = None,
    scenario: Annotated[str, option("model --scenario")] = "fully_overlapped",
    target: Annotated[str | None, option("model --target")] = None,
    vary: Annotated[str | None, option("model --vary")] = None,
    printed: Annotated[bool, option("model --printed")] = False,
    tables: Annotated[bool, option("model --tables")] = False,
    figures: Annotated[Path | None, option("model --figures")] = None,
    page: Annotated[Path | None, option("model --page")] = None,
    as_json: AsJson = False,
) -> None:
    """Solve the fixed point of TCP flows with token buckets over a RIO router (RR-4469)."""
    request = {"--target": target, "--tables": tables, "--figures": figures, "--page": page}
    chosen = [name for name, value in request.items() if value]
    if len(chosen) > 1:
        raise RequestError("one at a time", where=" ".join(chosen))
    if chosen and chosen[0] != "--target" and (words or printed):
        raise RequestError(f"{chosen[0]} uses the report's own scenarios", where=str(words or ""))
    if vary and not target:
        raise RequestError(
            "nothing to find", where=f"--vary {vary}", hint="add --target p_in=0.006"
        )
    if tables:
        _show_tables(as_json)
    elif figures or page:
        _write(figures, page, as_json)
    else:
        _solve(words or [], scenario, target, vary or "out_probability", printed, as_json)


def _solve(
    words: list[str], name: str, target: str | None, vary: str, printed: bool, as_json: bool
) -> None:
    from tcpf_lab.papers.rio.router import settings_for, solve

    scenario = scenario_of(words, name)
    found: dict[str, Any] = {}
    if target is not None:
        if printed:
            raise RequestError("--target is answered by the corrected model", where="--printed")
        quantity, limit = target_of(target)
        answer = settings_for(scenario, quantity, limit, vary)
        found["target"] = {"quantity": quantity, "at_most": limit, "vary": vary, **asdict(answer)}
        if not answer.kept:
            raise _never(answer, quantity, limit, vary)
        if answer.edge is not None:
            edge = int(answer.edge) if vary.endswith(("min", "max")) else answer.edge
            scenario = replace(scenario, **{vary: edge})  # type: ignore[arg-type]
        if not as_json:
            echo(_answer_line(answer, quantity, limit, vary))
    solution = solve(scenario, printed=printed)
    if as_json:
        console.print_json({**found, "scenario": asdict(scenario), **_numbers(solution)})
    else:
        _show(scenario, solution)


def _never(answer: Answer, quantity: str, limit: float, vary: str) -> LabError:
    low, high = f"{answer.tried.low:g}", f"{answer.tried.high:g}"
    at, minimum = answer.least
    return LabError(
        f"{quantity} is above {limit:g} for every {vary} from {low} to {high}; its minimum is "
        f"{minimum:.4g}, at {at:g}",
        where=f"--target {quantity}={limit:g}",
        hint="another --vary, a larger limit, or another scenario",
    )


def _answer_line(answer: Answer, quantity: str, limit: float, vary: str) -> str:
    ranges = " or ".join(f"from {one.low:.6g} to {one.high:.6g}" for one in answer.kept)
    unit = " packets" if vary.endswith(("min", "max")) else ""
    text = f"{quantity} is at most {limit:g} with {vary} {ranges}{unit}"
    return text if answer.edge is None else f"{text}; at {answer.edge:.6g}{unit}:"


def _numbers(solution: Solution) -> dict[str, Any]:
    flow = solution.per_flow
    per_flow = {name: getattr(flow, name).tolist() for name in flow.__dataclass_fields__}
    return {
        **{name: getattr(solution, name) for name in ("T", "T_in", "p_in", "p_out", "q")},
        "per_flow": per_flow,
    }


def _show(scenario: Scenario, solution: Solution) -> None:
    from tcpf_lab.report.captures import aligned_table

    flow = solution.per_flow
    values = {
        "scenario": scenario,
        "solution": solution,
        "delay_ms": 1e3 * solution.q / scenario.capacity,
        "throughput": (float(flow.throughput.min()), float(flow.throughput.max())),
        "window": (flow.window.min(), flow.window.max()),
        "timeouts": (100 * flow.timeout_share.min(), 100 * flow.timeout_share.max()),
    }
    columns = (("quantity", False), ("model", True), ("what it is", False))
    rows = [tuple(text.format(**values) for text in row) for row in _TEXTS["shown"]]
    console.show(aligned_table(columns, rows))


def _show_tables(as_json: bool) -> None:
    from tcpf_lab.papers.rio.model_page import tables
    from tcpf_lab.report.captures import aligned_table

    found = list(tables())
    if as_json:
        console.print_json(
            {t.name: [dict(zip(t.headings, row, strict=True)) for row in t.rows] for t in found}
        )
        return
    for table in found:
        echo(table.caption)
        columns = [(name, place > 0) for place, name in enumerate(table.headings)]
        console.show(aligned_table(columns, table.rows))


def _write(figures: Path | None, page: Path | None, as_json: bool) -> None:
    from tcpf_lab.papers.rio.model_page import figure_documents, page_documents
    from tcpf_lab.report.document import write_document

    require_place(figures or page or Path(), directory=bool(figures))
    documents = figure_documents(figures) if figures else page_documents(page or Path())
    written = []
    for path, content in documents:
        write_document(path, content)
        written.append(path)
    if as_json:
        console.print_json({"written": [str(path) for path in written]})
    else:
        console.show_written(written)
