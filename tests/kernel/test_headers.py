"""Every algorithm header by its table test: under sanitizers, and no line or branch left out."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from harness import KERNEL_TESTS, make

HEADERS = sorted(
    path.stem
    for path in (KERNEL_TESTS.parent / "include" / "net").glob("*.h")
    if "static inline" in path.read_text()
)
TABLES = sorted(path.stem.removeprefix("test_") for path in KERNEL_TESTS.glob("test_*.c"))


@pytest.mark.parametrize("name", TABLES)
def test_table(name: str, products: Path) -> None:
    made = make(products, f"check-{name}")
    assert made.returncode == 0, made.stdout


@pytest.mark.full
@pytest.mark.parametrize("header", HEADERS)
def test_every_line_and_branch_is_covered(header: str, products: Path) -> None:
    made = make(products, f"coverage-{header}")
    assert made.returncode == 0, made.stdout


# The harness itself: what a check is for, it must find.

HEADER = """
static inline int half(const int *numbers, int at)
{
	if (at < 0 || at > 3)
		return -1;
	return numbers[at] / 2;
}

static inline int nobody(void)
{
	return 1;
}
"""

PROGRAM = """
#include <net/sample.h>
#include "check.h"

static void halves(void)
{
	static const int numbers[] = { 2, 4, 6 };

	ROW("row %%d", 1);
	%s
}

int main(void)
{
	RUN(halves);
	return check_finish();
}
"""


@pytest.fixture
def run(tmp_path: Path):
    """Return a function that makes ``target`` for a header whose table test has ``body``."""

    def carry_out(body: str, target: str) -> subprocess.CompletedProcess[str]:
        header = tmp_path / "include" / "net" / "sample.h"
        header.parent.mkdir(parents=True)
        header.write_text(HEADER)
        tests = tmp_path / "tests"
        tests.mkdir()
        for part in ("Makefile", "check.h", "coverage.sh", "kernel.h"):
            (tests / part).symlink_to(KERNEL_TESTS / part)
        (tests / "test_sample.c").write_text(PROGRAM % body)
        return make(tmp_path / "products", target, sources=tests)

    return carry_out


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("CHECK_EQ(half(numbers, 0), 5);", "halves, row 1: half(numbers, 0) is 1, expected 5"),
        ("CHECK(half(numbers, 0) == 5);", "halves, row 1: half(numbers, 0) == 5 does not hold"),
        ("half(numbers, 0);", "0 checks"),
        ("CHECK_EQ(half(numbers, 3), 0);", "runtime error: load of address"),
        ("CHECK_EQ(__INT_MAX__ + half(numbers, 0), 0);", "signed integer overflow"),
    ],
)
def test_a_table_test_fails(body: str, said: str, run) -> None:
    made = run(body, "check")
    assert made.returncode != 0
    assert said in made.stdout


def test_what_is_not_covered_is_named(run) -> None:
    made = run("CHECK_EQ(half(numbers, 0), 1); CHECK_EQ(half(numbers, -1), -1);", "coverage")
    assert made.returncode != 0
    assert "sample.h:4: branch 2 not taken: if (at < 0 || at > 3)" in made.stdout
    assert "sample.h:11: not reached: return 1;" in made.stdout
    assert "sample.h:6:" not in made.stdout


def test_a_header_without_a_table_test_is_named(run, tmp_path: Path) -> None:
    assert run("CHECK_EQ(half(numbers, 0), 1); nobody();", "check").returncode == 0
    (tmp_path / "tests" / "test_sample.c").unlink()
    made = make(tmp_path / "products", "coverage", sources=tmp_path / "tests")
    assert made.returncode != 0
    assert "write tests/test_sample.c" in made.stdout


# Memory for flows, as the document states it.

KERNEL = KERNEL_TESTS.parent
DOCUMENT = KERNEL.parent / "docs" / "queues.md"
MEMORY = """
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
    tests = tmp_path / "tests"
    tests.mkdir()
    (tmp_path / "include").symlink_to(KERNEL / "include")
    for part in ("Makefile", "kernel.h"):
        (tests / part).symlink_to(KERNEL_TESTS / part)
    (tests / "test_memory.c").write_text(MEMORY)
    made = make(tmp_path / "products", "-s", "check-memory", sources=tests).stdout
    tcpf, token, record = map(int, made.split())
    text = DOCUMENT.read_text(encoding="utf-8")
    stated = re.search(r"For 65536 flows `tcpf` takes (\d+) MB, `token` (\d+) MB", text)
    assert stated
    assert [round(tcpf / 1e6), round(token / 1e6)] == [int(size) for size in stated.groups()]
    assert f"one takes {record} bytes" in text
