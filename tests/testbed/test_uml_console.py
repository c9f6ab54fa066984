"""From a guest's end to a sentence."""

import pytest

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.uml import guest

PANIC = """[    0.000000] Linux version 6.12.117
[   12.300000] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100
[   12.300000]  [<600200f0>] ? show_stack+0x0/0xc0
"""
USE_AFTER_FREE = """[    5.000000] ==========================================================
[    5.000000] BUG: KASAN: slab-use-after-free in rio_enqueue+0x126/0x1000 [sch_rio]
[    5.000000] Write of size 1 at addr 0000000063367443 by task tc/20
[    5.000000] WARNING: suspicious RCU usage
"""
OUT_OF_MEMORY = """[    2.100000] sh invoked oom-killer: gfp_mask=0xcc0, order=0
[    2.100000] Out of memory: Killed process 88 (tcpf-traffic) total-vm:8200kB
"""
NO_PTRACE = """Checking that ptrace can change system call numbers...ptrace: Operation not permitted
check_ptrace : expected SIGSTOP, got status = 256, errno = 1
"""


@pytest.fixture
def run(tmp_path):
    files = RunFiles(tmp_path / "nomark+red-flows10-seed1.partial")
    files.create()
    return files


def judge(run, text, status, **kind):
    (run.log / "console.txt").write_text(text)
    arguments = {"elapsed": 3.0, "deadline": 60.0, "memory_mb": 512} | kind
    with pytest.raises(TestbedError) as caught:
        guest.judge(run, status, **arguments)
    return caught.value


def test_guest_that_finished_its_plan_is_fine(run):
    (run.log / "finished").write_text("ok\n")
    guest.judge(run, 0, 3.0, 60.0, 512)


@pytest.mark.parametrize(
    ("text", "status", "cause"),
    [
        (PANIC, -6, "kernel panicked: [   12.300000] Kernel panic - not syncing: Attempted"),
        (OUT_OF_MEMORY, 0, "the guest ran out of memory (512 MB)"),
        (NO_PTRACE, 1, "does not permit ptrace"),
        ("booting", None, "the guest hung: killed after 3 s of real time (limit: 60 s"),
        ("booting", -9, "the guest was killed by SIGKILL after 3.0 s"),
        ("", 7, "the guest exited early with status 7"),
    ],
    ids=["panic", "out of memory", "ptrace", "hang", "killed", "early end"],
)
def test_error_names_run_cause_and_log(run, text, status, cause):
    error = judge(run, text, status)
    assert error.where == "run nomark+red-flows10-seed1"
    assert cause in error.message
    assert str(run.log / "console.txt") in error.message
    assert error.hint


def test_memory_that_ran_out_is_an_error_though_the_guest_has_finished(run):
    (run.log / "console.txt").write_text(OUT_OF_MEMORY)
    (run.log / "finished").touch()
    with pytest.raises(TestbedError, match=r"ran out of memory \(512 MB\)"):
        guest.judge(run, 0, 1.0, 60.0, 512)


def test_place_of_memory_that_ran_full_is_told_before_the_panic_that_it_leads_to(run):
    full = "[    0.0] Bus error - the host /dev/shm or /tmp mount likely just ran out of space\n"
    (run.log / "console.txt").write_text(full + PANIC)
    with pytest.raises(
        TestbedError, match="no space left for the file that holds the guest's memory"
    ):
        guest.judge(run, -6, 1.0, 60.0, 512)


def test_program_of_the_guest_that_found_no_room_is_told_as_such(run):
    (run.log / "failed").write_text(
        "marker: R0: a command of tc -batch: tc was killed by signal 7\n"
    )
    with pytest.raises(
        TestbedError, match="no space left for the file that holds the guest's memory"
    ):
        guest.judge(run, 0, 1.0, 60.0, 512)


def test_report_of_the_kernel_is_an_error_though_the_guest_has_finished(run):
    (run.log / "finished").write_text("")
    error = judge(run, USE_AFTER_FREE, 0)
    assert "kernel reports 2 fault(s): BUG: KASAN: slab-use-after-free in rio_en" in error.message


@pytest.mark.parametrize(
    "line",
    [
        "BUG: sleeping function called from invalid context at mm/slub.c:1",
        "BUG: scheduling while atomic: tc/20/0x00000002",
        "WARNING: CPU: 0 PID: 20 at lib/list_debug.c:62 __list_del_entry_valid_or_report+0x1/0x2",
        "WARNING: possible circular locking dependency detected",
        "list_del corruption. prev->next should be 1, but was 2. (prev=3)",
        "UBSAN: shift-out-of-bounds in sch_rio.c:20:54",
        "ODEBUG: free active (active state 0) object: 1 object type: timer_list hint: 0x0",
        "refcount_t: underflow; use-after-free.",
        "INFO: trying to register non-static key.",
        "BUG kmalloc-64 (Tainted: G           O      ): Poison overwritten",
    ],
)
def test_reports_of_all_kinds_are_recognised(line):
    assert guest.faults(f"[    5.000000] {line}\nother\n") == [line]


@pytest.mark.parametrize(
    "text",
    ["[    0.000000] sch_rio: loading out-of-tree module taints kernel.", "WARNING: a program"],
)
def test_other_lines_are_no_reports(text):
    assert guest.faults(text) == []


def test_failed_step_is_named_even_if_the_guest_powered_off_in_order(run):
    (run.log / "failed").write_text("queues: R1   tc qdisc add dev R1-R2 root red\n")
    error = judge(run, "[ 1.0] reboot: Power down", 0)
    assert "failed in the guest: queues: R1   tc qdisc add dev R1-R2 root red" in error.message


def test_last_lines_of_the_console_are_shown(run):
    error = judge(run, "\n".join(f"line {i}" for i in range(100)), 7)
    assert "line 99" in error.message
    assert "line 50" not in error.message
