"""Answers to files, one JSON object: ``python -m fuzz.replay FOLDER...``.

How they are found is the environment's affair: compiled, compiled with ``NUMBA_BOUNDSCHECK=1``, or
as plain Python with ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from pathlib import Path

from fuzz import interpreted, subject
from tcpf_lab.trace.warm import warm_up

#: Seconds that an input may take.
LIMIT_S = 60


def answers(folders: list[Path]) -> dict[str, str]:
    """Give the answer to every file; what it raised, if it did.

    Parameters
    ----------
    folders : list of Path
        Their files.
    """
    if interpreted.asked_for():
        interpreted.prepare()
    else:
        warm_up()  # compiling is not what an input may take its time for
    found = {}
    for path in (path for folder in folders for path in sorted(folder.iterdir())):
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        try:
            found[str(path)] = subject.answer(path.read_bytes())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            found[str(path)] = f"raised {type(error).__name__}"
    faulthandler.cancel_dump_traceback_later()
    return found


if __name__ == "__main__":
    print(json.dumps(answers([Path(name) for name in sys.argv[1:]])))
