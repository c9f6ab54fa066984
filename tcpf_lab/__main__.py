"""``tcpf-lab`` and ``python -m tcpf_lab``.

The program is imported inside ``main``: an interrupt while its libraries are loaded must not end in
a traceback either.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import warnings
from typing import Any

from tcpf_lab.base.errors import LabError, require_memory

#: What the command line itself needs, MB; `cli.Verb.memory_mb` is what a verb does.
_MEMORY_MB = 64


def main() -> None:
    """Run the command line."""
    try:
        require_memory(_MEMORY_MB, "tcpf-lab")
        _make_no_home()
        if sys.stdout is None:
            sys.exit("error: standard output is closed\n  try: give it a place, as > FILE")
        for stream in (sys.stdout, sys.stderr):
            # A terminal may lack letters of a name, not the name's output.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        warnings.showwarning = _note
        from tcpf_lab.cli import main as cli

        cli.main()
    except LabError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt but the end


def _note(message: Warning | str, category: type[Warning], *place: Any, **_: Any) -> None:
    """Tell what a user can change by itself, anything else with its place in the program."""
    text = f"note: {message}\n"
    if category is not UserWarning:
        text = warnings.formatwarning(message, category, *place[:2])
    sys.stderr.write(text)


def _make_no_home() -> None:
    """Give matplotlib a place of its own where it would make the home that does not exist."""
    if not os.path.isdir(os.path.expanduser("~")) and "MPLCONFIGDIR" not in os.environ:  # noqa: PTH111, PTH112 - a user may have none
        import atexit
        import shutil
        import tempfile

        place = os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp(prefix="tcpf-lab-")
        atexit.register(shutil.rmtree, place, ignore_errors=True)


if __name__ == "__main__":
    main()
