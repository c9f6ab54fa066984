"""The contents of a report, and its pictures, worked out from what it is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import tcpf_lab
from tcpf_lab.report.contents.answers import answer, question
from tcpf_lab.report.contents.limits import Provenance, limitations, provenance, runs_left_out
from tcpf_lab.report.contents.model import (
    Column,
    Contents,
    Entry,
    Fact,
    Figure,
    Figures,
    Group,
    Part,
    Reproduce,
    Table,
    Validity,
    count,
    listed,
    seeds_told,
)
from tcpf_lab.report.contents.papers import opening_parts, page_parts, told_of_claims
from tcpf_lab.report.contents.parameters import parameter_tables
from tcpf_lab.report.contents.results import result_parts, verdicts
from tcpf_lab.report.contents.subject import Subject
from tcpf_lab.report.contents.topology import draw_topology, told
from tcpf_lab.results.command import lines
from tcpf_lab.spec.graph import Graph

#: What a check of validity makes sure of; one without words here goes by its name alone.
CHECKS = {
    "offloads_off": "Segmentation offload is off on every interface.",
    "qdisc_in_force": "The queue under test has the options that were asked for.",
    "marker_in_force": "The marker has the options that were asked for.",
    "sysctls_in_force": "TCP's parameters are those of the profile.",
    "routes_in_force": "Initial window and least timer are on the routes.",
    "ecn_in_use": "ECN-capable packets came to the queue that marks.",
    "captures_complete": "No capture lacks a packet.",
    "no_unplanned_loss": "Nothing but the bottleneck lost packets.",
    "impairments_in_force": "What the path loses on purpose was lost, and nothing else.",
    "marks_match_marker": "As many marked packets arrived as the marker sent.",
    "loss_matches_qdisc": "The captures miss exactly what the queue dropped.",
    "bottleneck_rate": "The bottleneck sent at its rate while packets waited.",
    "window_counters": "The queue's counters at the window's two ends agree with each other.",
    "all_connected": "Every flow came up.",
    "goodput_matches_tcp_info": "Goodput agrees with the kernel's count of acknowledged bytes.",
    "flows_match_iperf3": "Goodput agrees with what iperf3 says.",
    "retransmissions_explained": "Every retransmission has a cause.",
    "timeouts_match_kernel": "Timeouts agree with the kernel's own count.",
    "clocks_agree": "The hosts' clocks were compared and agree.",
    "started_on_time": "Every program started when it should.",
}

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
    others = [page for page in subject.pages if not page.opening]
    texts = [text for page in subject.pages if page.opening for text in page.texts]
    contents = Contents(
        title=subject.title,
        subtitle=_conditions(subject),
        question=question(subject),
        answer=(*texts, *told_of_claims(others), *answer(subject)),
        topologies=tuple(_topologies(subject)),
        parameters=parameter_tables(subject),
        results=(*page_parts(others), *result_parts(subject)),
        claims=verdicts(subject.comparison),
        validity=_validity(subject, made),
        reproduce=Reproduce(tuple(map(lines, subject.commands)), tuple(_facts(made))),
        limitations=limitations(subject, made),
        program=f"tcpf-lab {tcpf_lab.__version__}",
        keywords=tuple(dict.fromkeys(r.cell.case for s in subject.sections for r in s.results)),
        opening=opening_parts(subject.pages),
    )
    return numbered(contents)


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
        graph = member.experiment.topology.graph()
        same = next((names for _, known, names in found if known == graph), None)
        if same is not None:
            same.append(member.label)
        else:
            found.append((f"topology-{len(found) + 1}", graph, [member.label]))
    return found


def _topologies(subject: Subject) -> Iterator[Figure]:
    graphs = _graphs(subject)
    for name, graph, users in graphs:
        whose = f" of {listed(users)}" if len(graphs) > 1 else ""
        caption = (
            f"The path{whose}: data flows from left to right, acknowledgements back. The bars at "
            f"{graph.bottleneck.a} are the queue under test; a delay stands under the link at "
            "whose end it is added, with the direction of the packets that wait."
        )
        yield Figure(name=name, label="", caption=caption, alternative=told(graph))


def _validity(subject: Subject, made: Provenance) -> Validity:
    results = [result for section in subject.sections for result in section.results]
    asked, complete = sum(r.n for r in results), sum(r.complete for r in results)
    valid, used = sum(r.valid_runs for r in results), sum(r.used for r in results)
    return Validity(
        summary=(
            f"Of {count(asked, 'run')} asked for, {complete} finished, {valid} passed every check, "
            f"and {used} are in the means.",
            *_timeouts_told(made),
        ),
        tables=(_checks(made),) if made.checks else (),
        left_out=tuple(runs_left_out(subject.sections)),
    )


def _timeouts_told(made: Provenance) -> Iterator[str]:
    """Say how the timeouts read from captures compare with the kernel's own count."""
    found = made.timeouts
    if found.kernel is None:
        return
    runs = "all runs" if found.runs == made.runs else f"{found.runs} of {made.runs} runs"
    exact = f"; {found.flows_exact} of {found.flows} flows agree exactly"
    yield (
        f"Timeouts are read from the captures: {found.captures} in {runs}, where the kernel itself "
        f"counted {found.kernel}{exact if found.flows_exact is not None else ''}."
    )


def _checks(made: Provenance) -> Table:
    rows = tuple(
        (
            Entry(check.name),
            Entry(CHECKS.get(check.name, "")),
            *(
                Entry(str(number), number)
                for number in (check.passed, check.failed, check.not_applicable)
            ),
        )
        for check in made.checks
    )
    columns = (
        Column("check"),
        Column("makes sure that"),
        Column("passed", "number", "", "Runs that passed it."),
        Column("failed", "number", "", "Runs that failed it."),
        Column("does not apply", "number", "", "Runs without anything that it could check."),
    )
    caption = "The checks that every finished run went through, and how many runs passed them."
    return Table("checks", "", caption, columns, (Group("", rows),))


def _facts(made: Provenance) -> Iterator[Fact]:
    yield Fact("runs", (str(made.runs),))
    yield Fact("seeds", (seeds_told(made.seeds),))
    for name, values in made.made_with.items():
        yield Fact(name, values, code=all(map(_is_code, values)))


def _is_code(text: str) -> bool:
    """Tell hashes and names of files from words."""
    return len(text) >= 12 and " " not in text


def numbered(contents: Contents) -> Contents:
    """Number tables and figures in the order in which they are read."""
    numbers = {"Table": 0, "Figure": 0}

    def labelled(items: tuple[_T, ...], noun: str) -> tuple[_T, ...]:
        given = []
        for item in items:
            numbers[noun] += 1
            given.append(replace(item, label=f"{noun} {numbers[noun]}"))
        return tuple(given)

    def parts(items: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple(
            replace(
                part,
                tables=labelled(part.tables, "Table"),
                figures=labelled(part.figures, "Figure"),
            )
            for part in items
        )

    return replace(
        contents,
        opening=parts(contents.opening),
        topologies=labelled(contents.topologies, "Figure"),
        parameters=labelled(contents.parameters, "Table"),
        results=parts(contents.results),
        validity=replace(contents.validity, tables=labelled(contents.validity.tables, "Table")),
    )
