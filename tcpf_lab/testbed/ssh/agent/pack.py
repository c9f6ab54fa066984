"""The agent as one file that ``python3`` runs, the same bytes for the same sources."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

_MAIN = "from tcpf_lab.testbed.ssh.agent.__main__ import main\n\nmain()\n"
_WHEN = (1980, 1, 1, 0, 0, 0)


def packed() -> bytes:
    """Pack the agent."""
    directory = Path(__file__).parent
    content = {
        "__main__.py": _MAIN.encode(),
        **{f"tcpf_lab/{room}__init__.py": b"" for room in ("", "testbed/", "testbed/ssh/")},
        **{
            f"tcpf_lab/testbed/ssh/agent/{path.name}": path.read_bytes()
            for path in directory.glob("*.py")
            if path.name != Path(__file__).name
        },
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(content):
            info = zipfile.ZipInfo(name, _WHEN)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            archive.writestr(info, content[name])
    return buffer.getvalue()
