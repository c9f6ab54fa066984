"""An experiment's matrix into runs: one case at one point of its axes, flows, one seed each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tcpf_lab.spec.matrix import Matrix
from tcpf_lab.spec.model import Case, Experiment
from tcpf_lab.spec.narrow import narrow
from tcpf_lab.spec.variant import Settings, Values, at, name_of, points, settings_of, touching


@dataclass(frozen=True)
class Run:
    """One cell of the matrix with one seed.

    ``experiment`` is narrowed to this run: dumped, loaded and expanded it gives the same run again.
    ``settings`` are the values of the axes that its case has, by the short form of their keys.
    """

    experiment: Experiment
    case_name: str
    case: Case
    flows: int
    seed: int
    settings: Settings = ()

    @property
    def id(self) -> str:
        """Name of the run's directory, such as ``nomark+red-flows100-seed1``.

        A setting stands behind the case, ``nomark+red-queue.max=100kB-flows100-seed1``: neither a
        case's part nor a value has an equals sign, and what would be the name of two runs, of no
        directory or of one within another is refused with the file.
        """
        cell = name_of(self.case_name, self.settings)
        return f"{cell}-flows{self.flows}-seed{self.seed}"


def expand(
    experiment: Experiment, only: Mapping[str, str] | None = None, seeds: int | None = None
) -> tuple[Run, ...]:
    """Give the runs of an experiment: cases in order, in each points of its axes, flows, seeds.

    A case is run at the combinations of those axes that it has; one without any is run once, as if
    the matrix had none.

    Parameters
    ----------
    experiment : Experiment
        A valid experiment; its case names are distinct as run ids.
    only : mapping of str to str, optional
        Restricts ``case``, ``flows``, ``seed`` or an axis to a comma-separated list of the
        matrix's values.
    seeds : int, optional
        Take only the first so many seeds of the matrix.

    Raises
    ------
    RequestError
        If ``only`` names an unknown key or value, or ``seeds`` is not from 1 to what there is.
    """
    narrowed = narrow(experiment, only, seeds)
    matrix = narrowed.matrix
    return tuple(
        _run(changed, case, values, flows, seed)
        for case, axes in touching(narrowed).items()
        for changed, values in (at(narrowed, case, point) for point in points(axes))
        for flows in matrix.flows
        for seed in matrix.seed
    )


def _run(experiment: Experiment, case: str, values: Values, flows: int, seed: int) -> Run:
    """Make one run of the experiment of one case at one point."""
    matrix = Matrix.model_validate({"case": case, "flows": flows, "seed": seed, **values})
    narrowed = experiment.model_copy(update={"matrix": matrix})
    return Run(narrowed, case, experiment.cases[case], flows, seed, settings_of(values))
