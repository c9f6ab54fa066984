"""Runs that are not simply part of the means, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tcpf_lab.report.collect import Problem
from tcpf_lab.report.contents.model import LeftOut
from tcpf_lab.report.contents.words import count, seeds_told
from tcpf_lab.report.section import Section

#: So many entries fit into a sentence; the table of a report has all of them.
_FEW = 5


def runs_left_out(sections: Sequence[Section]) -> Iterator[LeftOut]:
    """Yield the runs with a remark; of several experiments each is named with its own."""
    several = len(sections) > 1
    for section in sections:
        for result in section.results:
            for found in _alike(result.problems):
                prefix = f"{section.source.files.experiment}/" * several
                yield replace(found, named=prefix + found.named)


def told_of_left_out(sections: Sequence[Section]) -> str:
    """Say which finished runs are left out, and which are used all the same; empty for none.

    Runs that were never made are not told: whoever counts the runs that there are counts them.
    """
    found = [one for one in runs_left_out(sections) if one.state != "missing"]
    out, used = ([one for one in found if one.used is side] for side in (False, True))
    return " ".join(
        f"{words}: {_told(own)}."
        for words, own in (("Left out", out), ("Used although a check failed", used))
        if own
    )


def _told(runs: Sequence[LeftOut]) -> str:
    told = [f"{one.named} ({': '.join(filter(None, (one.state, one.reasons)))})" for one in runs]
    rest = sum(one.runs for one in runs[_FEW:])
    more = (f"and {count(rest, 'more run')}, which table.md lists",) * bool(rest)
    return "; ".join((*told[:_FEW], *more))


def _alike(problems: Sequence[Problem]) -> Iterator[LeftOut]:
    """Name the runs of a cell that have the same problem together: ``red-flows3, seeds 2 to 9``."""
    alike: dict[tuple[str, Problem], list[int]] = {}
    for problem in problems:
        cell, _, seed = problem.run.rpartition("-seed")
        alike.setdefault((cell, replace(problem, run="")), []).append(int(seed))
    for (cell, problem), seeds in alike.items():
        yield LeftOut(
            named=f"{cell}, {'seed' if len(seeds) == 1 else 'seeds'} {seeds_told(seeds)}",
            runs=len(seeds),
            state=problem.state,
            reasons="; ".join(problem.reasons),
            used=problem.used,
        )
