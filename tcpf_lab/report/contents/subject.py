"""What a report is about: the numbers, the experiments behind them, and the commands."""

from __future__ import annotations

from dataclasses import dataclass

from tcpf_lab.report.claims.page import Page
from tcpf_lab.report.compare.published import Comparison
from tcpf_lab.report.compare.sensitivity import Sensitivity
from tcpf_lab.report.section import Section
from tcpf_lab.spec.model import Experiment


@dataclass(frozen=True)
class Member:
    """An experiment and what its runs say."""

    experiment: Experiment
    section: Section

    @property
    def name(self) -> str:
        """What tables call it: the configuration of the published tables, or its own name."""
        return self.section.config if self.section.published else self.experiment.name

    @property
    def label(self) -> str:
        """The same with a word in front where it is only a letter."""
        return f"configuration {self.name}" if self.section.published else self.name


@dataclass(frozen=True)
class Subject:
    """Everything that the contents of a report are worked out from.

    Parameters
    ----------
    title : str
        Of the whole.
    members : tuple of Member
        The experiments, in the order of the report; of a collection with factors the levels.
    collection : bool
        Whether the members are a collection's, even if only one was requested.
    comparison : Comparison or None
        With the published tables; None where none of it was published.
    sensitivity : Sensitivity or None
        What moves which metric; None where nothing varies.
    commands : tuple of str
        What makes the runs and the report again.
    pages : tuple of Page
        On the papers and workloads that the experiments are of.
    question : str
        Of the experiment or collection file; may be empty.
    """

    title: str
    members: tuple[Member, ...]
    collection: bool
    comparison: Comparison | None
    sensitivity: Sensitivity | None
    commands: tuple[str, ...]
    pages: tuple[Page, ...] = ()
    question: str = ""

    @property
    def sections(self) -> tuple[Section, ...]:
        """What the runs say, experiment by experiment."""
        return tuple(member.section for member in self.members)

    @property
    def factors(self) -> tuple[str, ...]:
        """What was varied, one factor at a time; empty if nothing was."""
        names = (section.source.factor for section in self.sections)
        return tuple(dict.fromkeys(filter(None, names)))

    @property
    def varied(self) -> tuple[str, ...]:
        """Everything that was varied: factors, or the axes of matrices."""
        return tuple(f.name for f in self.sensitivity.factors) if self.sensitivity else ()

    @property
    def unchanged(self) -> Member:
        """The experiment that levels are changes of, or the first."""
        plain = (member for member in self.members if not member.section.source.factor)
        return next(plain, self.members[0])
