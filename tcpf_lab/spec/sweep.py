"""An experiment's matrix into runs: one case, one number of flows, one seed each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tcpf_lab.errors import RequestError
from tcpf_lab.spec.matrix import Matrix
from tcpf_lab.spec.model import Case, Experiment, case_slug
from tcpf_lab.spec.suggest import unknown

#: What of the matrix can be restricted.
KEYS = ("case", "flows", "seed")
T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """One cell of the matrix with one seed.

    ``experiment`` is narrowed to this run: dumped, loaded and expanded it gives the same run again.
    """

    experiment: Experiment
    case_name: str
    case: Case
    flows: int
    seed: int

    @property
    def id(self) -> str:
        """Name of the run's directory, such as ``nomark+red-flows100-seed1``."""
        return f"{case_slug(self.case_name)}-flows{self.flows}-seed{self.seed}"


def expand(
    experiment: Experiment, only: Mapping[str, str] | None = None, seeds: int | None = None
) -> tuple[Run, ...]:
    """Give the runs of an experiment: cases in order, in each flows, in each seeds.

    Parameters
    ----------
    experiment : Experiment
        A valid experiment; its case names are distinct as run ids.
    only : mapping of str to str, optional
        Restricts ``case``, ``flows`` or ``seed`` to a comma-separated list of the matrix's values.
    seeds : int, optional
        Take only the first so many seeds of the matrix.

    Raises
    ------
    RequestError
        If ``only`` names an unknown key or value, or ``seeds`` is not from 1 to what there is.
    """
    matrix = narrow(experiment, only, seeds).matrix
    return tuple(
        _run(experiment, case, flows, seed)
        for case in matrix.case
        for flows in matrix.flows
        for seed in matrix.seed
    )


def narrow(
    experiment: Experiment, only: Mapping[str, str] | None = None, seeds: int | None = None
) -> Experiment:
    """Give the experiment with fewer values in its matrix, `expand` describes which.

    Raises
    ------
    RequestError
        As `expand`.
    """
    wanted = dict(only or {})
    for key in wanted:
        if key not in KEYS:
            raise RequestError(
                unknown(f"unknown key '{key}'", key, KEYS), where=f"--only {key}=..."
            )
    cases = _chosen("case", {case_slug(c): c for c in experiment.selected_cases}, wanted)
    flows = _chosen("flows", {str(n): n for n in experiment.matrix.flows}, wanted)
    chosen = _chosen("seed", {str(n): n for n in _first(experiment.matrix.seed, seeds)}, wanted)
    matrix = Matrix(case=tuple(cases), flows=tuple(flows), seed=tuple(chosen))
    return experiment.model_copy(update={"matrix": matrix})


def parse_only(settings: Iterable[str]) -> dict[str, str]:
    """Turn ``KEY=VALUE`` words into the mapping that `expand` takes.

    Raises
    ------
    RequestError
        If a word is not of that form, or a key is given twice.
    """
    result: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key or not value:
            message = "write KEY=VALUE, as case=NoMark+RED or seed=1,2"
            raise RequestError(message, where=f"--only {setting}")
        if key in result:
            raise RequestError(
                f"{key} is given twice; separate its values by commas", where=f"--only {setting}"
            )
        result[key] = value
    return result


def _chosen(key: str, values: Mapping[str, T], wanted: Mapping[str, str]) -> list[T]:
    if key not in wanted:
        return list(values.values())
    picked = []
    for word in wanted[key].split(","):
        name = case_slug(word) if key == "case" else word.strip()
        if name not in values:
            message = unknown(f"unknown {key} '{word}'", word, [str(v) for v in values.values()])
            raise RequestError(message, where=f"--only {key}={wanted[key]}")
        picked.append(name)
    return [value for name, value in values.items() if name in picked]


def _first(seeds: tuple[int, ...], count: int | None) -> tuple[int, ...]:
    if count is None:
        return seeds
    if not 1 <= count <= len(seeds):
        message = f"must be from 1 to {len(seeds)}, the number of seeds in the matrix"
        raise RequestError(message, where=f"--seeds {count}")
    return seeds[:count]


def _run(experiment: Experiment, case_name: str, flows: int, seed: int) -> Run:
    case = experiment.cases[case_name]
    matrix = Matrix(case=(case_name,), flows=(flows,), seed=(seed,))
    narrowed = experiment.model_copy(update={"cases": {case_name: case}, "matrix": matrix})
    return Run(experiment=narrowed, case_name=case_name, case=case, flows=flows, seed=seed)
