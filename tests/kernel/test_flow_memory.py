"""What is kept of flows takes as much memory as the document says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from harness import KERNEL_TESTS

KERNEL = KERNEL_TESTS.parent
DOCUMENT = KERNEL.parent / "docs" / "queues-and-markers.md"
PROGRAM = """
#include <stdio.h>
#include "net/tcpf_marker.h"
#include "net/token_marker.h"
#include "net/frio_flows.h"

int main(void)
{
        u64 token = flow_table_bytes(65536, sizeof(struct token_marker_flow), true);

        printf("%llu %llu %zu", (unsigned long long)tcpf_marker_bytes(65536),
               (unsigned long long)token, sizeof(struct frio_record));
        return 0;
}
"""


def test_memory_of_flows_is_what_the_document_says(tmp_path: Path) -> None:
    program = tmp_path / "memory"
    include = [f"-I{KERNEL_TESTS / 'include'}", f"-I{KERNEL / 'include'}"]
    subprocess.run(
        ["gcc", "-w", *include, "-x", "c", "-", "-o", program], input=PROGRAM, text=True, check=True
    )
    made = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    tcpf, token, record = map(int, made.split())
    text = DOCUMENT.read_text(encoding="utf-8")
    said = re.search(r"For 65536 flows `tcpf` takes (\d+) MB, `token` (\d+) MB", text)
    assert said
    assert [round(tcpf / 1e6), round(token / 1e6)] == [int(size) for size in said.groups()]
    assert f"one takes {record} bytes" in text
