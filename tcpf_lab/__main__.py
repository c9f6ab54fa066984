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
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt but the end


if __name__ == "__main__":
    main()
