"""``tcpf-lab`` and ``python -m tcpf_lab``.

The program is imported inside ``main``: loading its libraries takes a second, and an interrupt in
that second must not end in a traceback either.  The analysis of captures needs few of them, and is
run without the others.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        if sys.argv[1:2] == ["analyze"]:
            from tcpf_lab import analyze_verbs

            analyze_verbs.main()
        else:
            from tcpf_lab import cli

            cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
