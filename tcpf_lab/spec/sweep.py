"""An experiment's matrix into runs: one case, one number of flows, one seed each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcpf_lab.errors import RequestError
from tcpf_lab.spec.matrix import Matrix
from tcpf_lab.spec.model import Case, Experiment, case_slug
from tcpf_lab.spec.suggest import unknown

#: What of the matrix can be restricted.
KEYS = ("case", "flows", "seed")


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
    (narrowed,) = narrow_each([experiment], only, seeds)
    assert narrowed is not None  # what the only experiment lacks is refused
    return narrowed


def narrow_each(
    experiments: Sequence[Experiment],
    only: Mapping[str, str] | None = None,
    seeds: int | None = None,
    where: Callable[[str], str] | None = None,
) -> list[Experiment | None]:
    """Give of each experiment what it has of the wanted values, None for one without any.

    Parameters
    ----------
    experiments : sequence of Experiment
        What to narrow, at least one.
    only, seeds
        As for `expand`; each value must be in some matrix, not in every one.
    where : callable, optional
        Gives the place of a key of ``only``, or of ``seeds``, for messages; the option by default.

    Raises
    ------
    RequestError
        If ``only`` names an unknown key, a value is in no matrix, or none has so many seeds.
    """
    wanted = dict(only or {})
    place = where or (lambda key: _option(key, wanted, seeds))
    most = max(len(experiment.matrix.seed) for experiment in experiments)
    if seeds is not None and not 1 <= seeds <= most:
        message = f"must be from 1 to {most}, the number of seeds in the matrix"
        raise RequestError(message, where=place("seeds"))
    values = [_values(experiment, seeds) for experiment in experiments]
    words = {key: _words(key, text, values, place) for key, text in wanted.items()}
    return [
        _narrowed(experiment, own, words)
        for experiment, own in zip(experiments, values, strict=True)
    ]


def _option(key: str, wanted: Mapping[str, str], seeds: int | None) -> str:
    return f"--seeds {seeds}" if key == "seeds" else f"--only {key}={wanted[key]}"


def _values(experiment: Experiment, seeds: int | None) -> dict[str, dict[str, Any]]:
    """What ``only`` may say: for each key the values of the matrix by the word that means them."""
    return {
        "case": {case_slug(name): name for name in experiment.selected_cases},
        "flows": {str(number): number for number in experiment.matrix.flows},
        "seed": {str(number): number for number in experiment.matrix.seed[:seeds]},
    }


def _words(
    key: str,
    text: str,
    values: Sequence[Mapping[str, Mapping[str, Any]]],
    place: Callable[[str], str],
) -> set[str]:
    """The words of a list, each of which is in some matrix."""
    if key not in KEYS:
        raise RequestError(unknown(f"unknown key '{key}'", key, KEYS), where=place(key))
    known = {name: value for own in values for name, value in own[key].items()}
    words = set()
    for word in text.split(","):
        name = case_slug(word) if key == "case" else word.strip()
        if name not in known:
            message = unknown(f"unknown {key} '{word}'", word, map(str, known.values()))
            raise RequestError(message, where=place(key))
        words.add(name)
    return words


def _narrowed(
    experiment: Experiment, values: Mapping[str, Mapping[str, Any]], words: Mapping[str, set[str]]
) -> Experiment | None:
    chosen = {
        key: tuple(value for name, value in own.items() if name in words.get(key, own))
        for key, own in values.items()
    }
    if not all(chosen.values()):
        return None
    return experiment.model_copy(update={"matrix": Matrix(**chosen)})


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


def _run(experiment: Experiment, case_name: str, flows: int, seed: int) -> Run:
    case = experiment.cases[case_name]
    matrix = Matrix(case=(case_name,), flows=(flows,), seed=(seed,))
    narrowed = experiment.model_copy(update={"cases": {case_name: case}, "matrix": matrix})
    return Run(experiment=narrowed, case_name=case_name, case=case, flows=flows, seed=seed)
