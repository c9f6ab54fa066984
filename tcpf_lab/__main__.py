"""``tcpf-lab`` and ``python -m tcpf_lab``.

The program is imported inside ``main``: an interrupt while its libraries are loaded must not end in
a traceback either.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line."""
    try:
        from tcpf_lab import cli

        cli.main()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is nothing left to interrupt
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
