"""The targets of fuzzing that are text, by name; each loads no more than it needs.

``python -m tools.fuzz.text_target NAME [OPTION]...`` fuzzes one, guided by coverage.  The options
are libFuzzer's, with the directories of inputs among them.
"""

from __future__ import annotations

import importlib
import logging
import sys
import warnings
from collections.abc import Callable, Mapping

from tools.fuzz.text_mutate import mutate

#: The module that has the function of that name, and in ``SEEDS`` what gives its first inputs.
TARGETS: Mapping[str, str] = {
    "spec": "tools.fuzz.text_subject",
    "inventory": "tools.fuzz.text_subject",
    "records": "tools.fuzz.run_subject",
    "metrics": "tools.fuzz.run_subject",
}
#: Those of whole runs, which have to be made first.
OF_RUNS = ("records", "metrics")


def subject(name: str) -> Callable[[bytes], str]:
    """Give what a target does with an input: it returns an answer, or raises what is a fault."""
    found: Callable[[bytes], str] = getattr(importlib.import_module(TARGETS[name]), name)
    return found


#: One mutation in so many is libFuzzer's own, which knows what it has compared.
_OWN = 4


def main() -> None:
    """Fuzz until libFuzzer's options say that it is enough."""
    import atheris

    name = sys.argv.pop(1)
    warnings.simplefilter("ignore")  # numpy's, of numbers that are out of range
    logging.disable()
    with atheris.instrument_imports(include=["ruamel", "tcpf_lab"]):
        work = subject(name)
    if name in OF_RUNS:
        from tools.fuzz import run_subject

        run_subject.bases()

    def answer(data: bytes) -> None:
        work(data)

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        if seed % _OWN == 0:
            return bytes(atheris.Mutate(data, most))
        return mutate(data, seed, most)

    atheris.Setup(sys.argv, answer, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
