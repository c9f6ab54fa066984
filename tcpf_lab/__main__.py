"""``tcpf-lab`` and ``python -m tcpf_lab``.

The program is imported inside ``main``: loading its libraries takes a second, and an interrupt in
that second must not end in a traceback either.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from tcpf_lab.cli import main as run_command_line

        run_command_line()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
