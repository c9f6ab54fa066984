"""Coverage-guided fuzzing of the plain Python: ``python -m fuzz.target CORPUS [LIBFUZZER OPTION]``.

Wants ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["tcpf_lab.trace"]):
    from fuzz import subject

from fuzz import interpreted
from fuzz.mutate import mutate

#: One mutation in so many is libFuzzer's own, which knows what it has compared.
_OWN = 8


def _mutated(data: bytes, most: int, seed: int) -> bytes:
    if seed % _OWN == 0:
        return bytes(atheris.Mutate(data, most))
    return mutate(data, seed, most)


def main() -> None:
    """Fuzz until libFuzzer's options say that it is enough."""
    interpreted.prepare()
    atheris.Setup(sys.argv, subject.glance, custom_mutator=_mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
