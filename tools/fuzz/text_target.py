"""Coverage-guided fuzzing of text: ``python -m tools.fuzz.text_target NAME [OPTION]...``.

The options are libFuzzer's, with the directories of inputs among them.
"""

from __future__ import annotations

import logging
import sys
import warnings

import atheris

from tools.fuzz import text_targets
from tools.fuzz.text_mutate import mutate

#: One mutation in so many is libFuzzer's own, which knows what it has compared.
_OWN = 4


def _mutated(data: bytes, most: int, seed: int) -> bytes:
    if seed % _OWN == 0:
        return bytes(atheris.Mutate(data, most))
    return mutate(data, seed, most)


def main() -> None:
    """Fuzz until libFuzzer's options say that it is enough."""
    name = sys.argv.pop(1)
    warnings.simplefilter("ignore")  # numpy's, of numbers that are out of range
    logging.disable()
    with atheris.instrument_imports(include=["ruamel", "tcpf_lab"]):
        work = text_targets.subject(name)
    if name in text_targets.OF_RUNS:
        from tools.fuzz import text_runs

        text_runs.bases()

    def answer(data: bytes) -> None:
        work(data)

    atheris.Setup(sys.argv, answer, custom_mutator=_mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
