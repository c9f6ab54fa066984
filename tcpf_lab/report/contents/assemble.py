"""The contents of a report, and its pictures, worked out from what it is about."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import tcpf_lab
from tcpf_lab.report.claims.page import Page
from tcpf_lab.report.contents.answers import answer, details, question
from tcpf_lab.report.contents.model import (
    Contents,
    Fact,
    Figure,
    Figures,
    LeftOut,
    Limitation,
    Part,
    Reproduce,
    Validity,
    Verdicts,
    count,
    filled,
    listed,
    seeds_text,
    sentences,
)
from tcpf_lab.report.contents.papers import answer_of, page_parts
from tcpf_lab.report.contents.parameters import parameter_tables
from tcpf_lab.report.contents.results import result_parts, summary, verdicts
from tcpf_lab.report.contents.subject import Subject
from tcpf_lab.report.contents.topology import described, draw_topology
from tcpf_lab.report.document import agreed
from tcpf_lab.report.section import Problem, Section
from tcpf_lab.report.table import Column, Entry, Line, Table, table_of
from tcpf_lab.results.command import lines
from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.tcp import LINUX22, LINUX22_BEHAVIOURS, NEWRENO, RENO

#: So many entries fit into a sentence; the table of a report has all of them.
_FEW = 5
#: Sentences of the answer on page one, and rows of a table that it has room for.
_SENTENCES = 3
_ON_PAGE_ONE = 18
#: Words for the checks of validity, and for keys of a run's manifest.
WORDS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("words.toml").read_text("utf-8")
)
#: What a check of validity makes sure of; one without words here goes by its name alone.
CHECKS: Mapping[str, str] = WORDS["checks"]

_T = TypeVar("_T", Table, Figure)


def contents_of(subject: Subject) -> Contents:
    """Work out everything that a report says.

    Parameters
    ----------
    subject : Subject
        The numbers, with at least one usable run.

    Raises
    ------
    LabError
        If a run that is part of the means has no manifest.
    """
    made = provenance(subject.sections)
    reply = answer(subject)
    contents = Contents(
        title=subject.title,
        subtitle=_conditions(subject),
        question=question(subject),
        verdict=reply.verdict,
        answer=reply.lines,
        front=summary(subject),
        topologies=tuple(_topologies(subject)),
        parameters=parameter_tables(subject),
        results=(*_in_full(subject), *page_parts(subject.pages), *result_parts(subject)),
        claims=verdicts(subject.comparison),
        validity=_validity(subject, made),
        reproduce=Reproduce(tuple(map(lines, subject.commands)), tuple(_facts(made))),
        limitations=limitations(subject, made),
        program=f"tcpf-lab {tcpf_lab.__version__}",
        keywords=tuple(dict.fromkeys(r.cell.case for s in subject.sections for r in s.results)),
    )
    return numbered(contents)


def _in_full(subject: Subject) -> Iterator[Part]:
    """Yield what the runs show in sentences, where there is more than the answer."""
    if found := details(subject):
        yield Part("results-summary", "Summary", found)


def figures_of(subject: Subject, drawings: Figures) -> Figures:
    """Give every figure of the contents: the ``drawings`` of its results, and the topologies."""
    return {**drawings, **{name: draw_topology(graph) for name, graph, _ in _graphs(subject)}}


def _conditions(subject: Subject) -> str:
    """Give the conditions of the runs, those once in which the experiments are alike."""
    sections = (subject.unchanged.section,) if subject.factors else subject.sections
    different = [section.source.conditions.split(", ") for section in sections]
    if len({len(parts) for parts in different}) > 1:
        return "; ".join(dict.fromkeys(", ".join(parts) for parts in different))
    columns = zip(*different, strict=True)
    return ", ".join(listed(dict.fromkeys(values), "or") for values in columns)


def _graphs(subject: Subject) -> list[tuple[str, Graph, list[str]]]:
    """Give every different graph with a name for its picture and the experiments on it."""
    members = (subject.unchanged,) if subject.factors else subject.members
    found: list[tuple[str, Graph, list[str]]] = []
    for member in members:
        graph = member.experiment.graph
        same = next((names for _, known, names in found if known == graph), None)
        if same is not None:
            same.append(member.label)
        else:
            found.append((f"topology-{len(found) + 1}", graph, [member.label]))
    return found


def _topologies(subject: Subject) -> Iterator[Figure]:
    graphs = _graphs(subject)
    for name, graph, users in graphs:
        whose = users if len(graphs) > 1 else []
        (caption,) = sentences("path", users=whose, bottleneck=graph.bottleneck.a)
        yield Figure(name=name, caption=caption, alternative=described(graph))


def _validity(subject: Subject, made: Provenance) -> Validity:
    results = [result for section in subject.sections for result in section.results]
    summary = sentences(
        "validity",
        requested=sum(result.n for result in results),
        complete=sum(result.complete for result in results),
        valid=sum(result.valid_runs for result in results),
        used=sum(result.used for result in results),
        runs=made.runs,
        timeouts=made.timeouts,
    )
    tables = (_checks(made),) if made.checks else ()
    return Validity(tuple(summary), tables, tuple(runs_left_out(subject.sections)))


def _checks(made: Provenance) -> Table:
    rows: Iterator[Line] = (
        (
            check.name,
            CHECKS.get(check.name, ""),
            *(
                Entry(str(number), number)
                for number in (check.passed, check.failed, check.not_applicable)
            ),
        )
        for check in made.checks
    )
    columns = (
        "check",
        "makes sure that",
        Column("passed", "number", "", "Runs that passed it."),
        Column("failed", "number", "", "Runs that failed it."),
        Column("does not apply", "number", "", "Runs without anything that it could check."),
    )
    caption = "The checks that every finished run went through, and how many runs passed them."
    return table_of("checks", caption, columns, rows)


def _facts(made: Provenance) -> Iterator[Fact]:
    yield Fact("runs", (str(made.runs),))
    yield Fact("seeds", (seeds_text(made.seeds),))
    for name, values in made.made_with.items():
        yield Fact(name, values, code=all(map(_is_code, values)))


def _is_code(text: str) -> bool:
    """Tell hashes and names of files from words."""
    return len(text) >= 12 and " " not in text


def page_alone(page: Page, again: str) -> Contents:
    """Give a report that is one page, made again by a command."""
    reply = answer_of(page)
    derived = "Are the claims of the paper confirmed?" if page.claims else "What do the runs show?"
    contents = Contents(
        title=page.title,
        subtitle="",
        question=derived if reply.lines else "",
        verdict=reply.verdict,
        answer=reply.lines,
        topologies=(),
        parameters=(),
        results=tuple(page_parts((page,))),
        claims=Verdicts((), ()),
        validity=Validity((), (), ()),
        reproduce=Reproduce((lines(again),), ()),
        limitations=(),
        program=f"tcpf-lab {tcpf_lab.__version__}",
    )
    return numbered(contents)


def numbered(contents: Contents) -> Contents:
    """Choose what stands on page one, and number tables and figures as they are read."""
    contents = _with_front(contents)
    numbers = {"Table": 0, "Figure": 0}

    def labelled(items: tuple[_T, ...], noun: str) -> tuple[_T, ...]:
        given = []
        for item in items:
            numbers[noun] += 1
            given.append(replace(item, label=f"{noun} {numbers[noun]}"))
        return tuple(given)

    def part(one: Part) -> Part:
        tables, figures = labelled(one.tables, "Table"), labelled(one.figures, "Figure")
        return replace(one, tables=tables, figures=figures)

    front = None if contents.front is None else part(contents.front)
    main = tuple(map(part, contents.main))
    return replace(
        contents,
        front=front,
        results=(*main, *map(part, contents.details)),
        topologies=labelled(contents.topologies, "Figure"),
        parameters=labelled(contents.parameters, "Table"),
        validity=replace(contents.validity, tables=labelled(contents.validity.tables, "Table")),
    )


def _with_front(contents: Contents) -> Contents:
    """Move the first figure and the first small table of the results to page one.

    What is there already stays.
    """
    front = contents.front or Part("front", "")
    parts = list(contents.results)
    answer, more = contents.answer[:_SENTENCES], contents.answer[_SENTENCES:]
    if more:
        parts.insert(0, Part("results-answer", "The answer in full", more))
    if not front.tables:
        every = (table for part in contents.main for table in part.tables)
        short = (one for one in every if len(one.rows) <= _ON_PAGE_ONE and not one.wide)
        front = replace(front, tables=tuple(islice(short, 1)))
    if not front.figures:
        figures = (figure for part in contents.main for figure in part.figures)
        front = replace(front, figures=tuple(islice(figures, 1)))
    left = [
        replace(
            part,
            tables=tuple(one for one in part.tables if one not in front.tables),
            figures=tuple(one for one in part.figures if one not in front.figures),
        )
        for part in parts
    ]
    remaining = tuple(
        now for now, before in zip(left, parts, strict=True) if before.empty or not now.empty
    )
    shown = None if front.empty else front
    return replace(contents, answer=answer, front=shown, results=remaining)


def runs_left_out(sections: Sequence[Section]) -> Iterator[LeftOut]:
    """Yield the runs with a remark; of several experiments each is named with its own."""
    several = len(sections) > 1
    for section in sections:
        for result in section.results:
            for found in _alike(result.problems):
                prefix = f"{section.source.files.experiment}/" * several
                yield replace(found, named=prefix + found.named)


def left_out_text(sections: Sequence[Section]) -> str:
    """Say which finished runs are left out, and which are used all the same; empty for none.

    Runs that were never made are not listed; they are counted elsewhere.
    """
    found = [one for one in runs_left_out(sections) if one.state != "missing"]
    out, used = ([one for one in found if one.used is side] for side in (False, True))
    return " ".join(
        f"{words}: {_listed(own)}."
        for words, own in (("Left out", out), ("Used although a check failed", used))
        if own
    )


def _listed(runs: Sequence[LeftOut]) -> str:
    named = [f"{one.named} ({': '.join(filter(None, (one.state, one.reasons)))})" for one in runs]
    rest = sum(one.runs for one in runs[_FEW:])
    more = (f"and {count(rest, 'more run')}, which table.md lists",) * bool(rest)
    return "; ".join((*named[:_FEW], *more))


def _alike(problems: Sequence[Problem]) -> Iterator[LeftOut]:
    """Name the runs of a cell that have the same problem together: ``red-flows3, seeds 2 to 9``."""
    alike: dict[tuple[str, Problem], list[int]] = {}
    for problem in problems:
        cell, _, seed = problem.run.rpartition("-seed")
        alike.setdefault((cell, replace(problem, run="")), []).append(int(seed))
    for (cell, problem), seeds in alike.items():
        yield LeftOut(
            named=f"{cell}, {'seed' if len(seeds) == 1 else 'seeds'} {seeds_text(seeds)}",
            runs=len(seeds),
            state=problem.state,
            reasons="; ".join(problem.reasons),
            used=problem.used,
        )


#: Words for recovery without SACK, and above it.
_RECOVERIES = {
    NEWRENO: "NewReno, not Reno.",
    LINUX22: "NewReno of Linux 2.2.",
    RENO: "Reno by a patch.",
}


@dataclass(frozen=True)
class CheckTally:
    """How many runs passed a check, failed it, or have nothing that it applies to."""

    name: str
    passed: int
    failed: int
    not_applicable: int


@dataclass(frozen=True)
class Timeouts:
    """Timeouts in the captures of runs, and the kernels' own count; None if there is none.

    ``runs`` are those that have such a count, or all if none has; ``flows`` those whose own counts
    were compared, of which ``flows_exact`` agree.
    """

    runs: int
    captures: int
    kernel: int | None
    flows: int
    flows_exact: int | None


@dataclass(frozen=True)
class Provenance:
    """What the runs that the means are made of have in common.

    ``made_with`` has every fact by its name, several values where runs differ; ``checks`` are
    counted over all finished runs, invalid ones included.
    """

    runs: int
    seeds: tuple[int, ...]
    clocks: tuple[str, ...]
    made_with: Mapping[str, tuple[str, ...]]
    checks: tuple[CheckTally, ...]
    timeouts: Timeouts


def provenance(sections: Iterable[Section]) -> Provenance:
    """Read the manifests and verdicts of every run that is part of a report.

    Raises
    ------
    LabError
        If a run has no manifest.
    """
    manifests, metrics = [], []
    checks: dict[str, Counter[bool | None]] = {}
    for section in sections:
        files = section.source.files
        for run, used in _finished(section):
            found = read_json(files.run(run).metrics)
            for check in found.get("validity", {}).get("checks", ()):
                checks.setdefault(check["name"], Counter())[check["ok"]] += 1
            if used:
                manifests.append(read_json(files.run(run).manifest))
                metrics.append({"analysis": found.get("analysis"), "truth": found.get("truth")})
    common = agreed({name: m[name] for name in WORDS["made_with"] if name in m} for m in manifests)
    facts = {
        WORDS["made_with"][name]: common[name] for name in WORDS["made_with"] if name in common
    }
    analyses = agreed(found["analysis"] for found in metrics)
    return Provenance(
        runs=len(manifests),
        seeds=tuple(sorted({int(m["seed"]) for m in manifests})),
        clocks=tuple(sorted({str(m["clock"]) for m in manifests})),
        made_with={**dict(_flat("", facts)), "identity of the analysis": _values(analyses)},
        checks=tuple(
            CheckTally(name, found[True], found[False], found[None])
            for name, found in checks.items()
        ),
        timeouts=_timeouts([found["truth"] or {} for found in metrics]),
    )


def _finished(section: Section) -> Iterable[tuple[str, bool]]:
    """Yield every run that has a verdict, and whether it is part of the means."""
    for result in section.results:
        unread = {problem.run for problem in result.problems if problem.state != "invalid"}
        used = set(result.used_runs)
        yield from ((run, run in used) for run in result.cell.runs if run not in unread)


def _flat(above: str, value: Any) -> Iterable[tuple[str, tuple[str, ...]]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{above} {WORDS['facts'].get(key, key)}".strip(), inner)
    elif value not in (None, [], ""):
        yield above, _values(value)


def _values(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _timeouts(found: list[Mapping[str, Any]]) -> Timeouts:
    found = [truth for truth in found if truth.get("timeouts_pcap") is not None or not truth]
    compared = [truth for truth in found if truth.get("timeouts_kernel") is not None]
    by_flow = [truth for truth in compared if truth.get("flows_exact") is not None]
    return Timeouts(
        runs=len(compared or found),
        captures=sum(truth.get("timeouts_pcap") or 0 for truth in compared or found),
        kernel=sum(truth["timeouts_kernel"] for truth in compared) if compared else None,
        flows=sum(truth["flows"] for truth in by_flow),
        flows_exact=sum(truth["flows_exact"] for truth in by_flow) if by_flow else None,
    )


def limitations(subject: Subject, made: Provenance) -> tuple[Limitation, ...]:
    """Give what applies to these experiments and to the testbed they were run on."""
    tcps = [tcp for member in subject.members for tcp in member.experiment.tcps]
    old = [tcp for tcp in tcps if tcp.profile != "modern"]
    recoveries = {tcp.without_sack for tcp in tcps}
    text = filled(
        "limitations",
        clocks=made.clocks,
        behaviours=[w for w in LINUX22_BEHAVIOURS if any(w in tcp.behaviours for tcp in tcps)],
        lacking=[w for w in LINUX22_BEHAVIOURS if any(w not in tcp.behaviours for tcp in old)],
        recoveries=[
            (heading, words.replace("`", ""))
            for words, heading in _RECOVERIES.items()
            if words in recoveries
        ],
        compared=bool(subject.comparison),
        seeds=len(made.seeds),
        flows=sorted({result.cell.flows for s in subject.sections for result in s.results}),
    )
    parts = (part.split("\n", 1) for part in text.removeprefix("## ").split("\n## "))
    return tuple(
        Limitation(heading, " ".join(words.split("\n")).strip()) for heading, words in parts
    )
