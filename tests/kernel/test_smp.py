"""The modules on several processors: the judge on what kernels say, and a minute of real load."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tools.parts import read_parts
from tools.stress import guest, kernel, scenario, trial
from tools.stress.verdict import judge, reports, steps

#: What kernels have said; "of a class" is what `tc class show` reads of a child of mq, as far as to
#: the first caller that is not a copier.
BOOT, OURS, MARKED, COPIED, KERNELS_OWN, LOCKDEP, WARNING, OF_A_CLASS = read_parts(
    Path(__file__).with_name("smp_reports.txt")
).values()
SCENARIO = """\
seconds 5
seed 1
setup - ip netns add R
flood 0 R udp 10.0.0.1 9 1
loop change R tc qdisc change dev d1 root rio limit 5
"""
JOURNAL = """\
progress 0 0 0
state debug_locks 1
state enabled 1
state setup_watchpoints 4711
step 0 1 0 0 7
step 1 20 0 900 0
step 2 3 1 0 80 Error: no queue there.
end
"""


def titles(found):
    return [report.title for report in found]


def test_clean_run_passes_and_is_counted():
    verdict = judge(BOOT + KERNELS_OWN, JOURNAL, SCENARIO)
    assert verdict.passed
    assert (verdict.commands, verdict.packets, verdict.watched) == (4, 20, 4711)
    assert titles(verdict.others) == [
        "BUG: KCSAN: data-race in lapic_cal_handler / setup_boot_APIC_clock"
    ]


def test_data_race_with_a_frame_of_a_module_is_a_finding():
    verdict = judge(BOOT + OURS + KERNELS_OWN, JOURNAL, SCENARIO)
    assert not verdict.passed
    (found,) = verdict.findings
    assert found.modules == ("sch_rio",)
    assert found.title.endswith("rio_enqueue [sch_rio] / rio_dump [sch_rio]")
    assert "tc_fill_qdisc" in found.text
    assert len(verdict.others) == 1


def test_data_race_is_the_kernels_where_only_its_own_access_is_not_marked():
    verdict = judge(BOOT + MARKED, JOURNAL, SCENARIO)
    assert verdict.passed
    assert len(verdict.others) == 1


def test_what_copies_for_a_module_is_the_module():
    verdict = judge(BOOT + COPIED, JOURNAL, SCENARIO)
    assert [report.modules for report in verdict.findings] == [("sch_rio",)]


def test_counters_that_the_kernel_reads_of_every_qdisc_without_a_lock_are_its_own_affair():
    dumped = COPIED.replace("(marked) ", "").replace("rio_dump_stats", "tc_fill_qdisc")
    verdict = judge(BOOT + dumped.replace("0x7c0 [sch_rio]", "0x7c0"), JOURNAL, SCENARIO)
    assert verdict.passed
    assert len(verdict.others) == 1


def test_counters_that_mq_reads_of_its_children_without_their_lock_are_its_own_affair():
    verdict = judge(BOOT + OF_A_CLASS, JOURNAL, SCENARIO)
    assert verdict.passed
    assert len(verdict.others) == 1


@pytest.mark.parametrize("reader", ["tbf_graft", "mq_dump", "rio_dump_stats"])
def test_who_reads_the_same_counters_under_a_lock_is_no_excuse(reader):
    verdict = judge(BOOT + OF_A_CLASS.replace("mq_dump_class_stats", reader), JOURNAL, SCENARIO)
    assert [report.modules for report in verdict.findings] == [("sch_rio",)]


def test_reordered_access_counts_as_plain():
    (report,) = reports(MARKED.replace("(marked)", "(reordered)"))
    assert report.modules == ("act_tcpf",)
    (report,) = reports(MARKED.replace("(marked)", "(marked, reordered)"))
    assert report.modules == ()


@pytest.mark.parametrize(
    ("line", "title"),
    [
        (LOCKDEP, "WARNING: possible circular locking dependency detected"),
        (WARNING, "WARNING: CPU: 1 PID: 80 at net/sched/sch_api.c:823 qdisc_tree_reduce_backlog"),
        ("[ 1.0] BUG: sleeping function called from invalid context at mm.h:321", "BUG: sleeping"),
        ("[ 1.0] BUG: unable to handle page fault for address: ffff", "BUG: unable to handle"),
        ("[ 1.0] INFO: task tc:91 blocked for more than 60 seconds.", "INFO: task tc:91 blocked"),
        ("[ 1.0] watchdog: BUG: soft lockup - CPU#1 stuck for 22s!", "watchdog: BUG: soft lockup"),
        ("[ 1.0] rcu: INFO: rcu_preempt self-detected stall on CPU", "rcu: INFO: rcu_preempt"),
        ("[ 1.0] ODEBUG: free active (active state 0) object type: timer_list", "ODEBUG: free"),
        ("[ 1.0] list_del corruption. prev->next should be ffff", "list_del corruption"),
        ("[ 1.0] refcount_t: underflow; use-after-free.", "refcount_t: underflow"),
        ("[ 1.0] unregister_netdevice: waiting for d1 to become free.", "unregister_netdevice"),
        ("[ 1.0] Kernel panic - not syncing: Attempted to kill init!", "Kernel panic"),
    ],
)
def test_any_other_report_is_a_finding_whoever_is_in_it(line, title):
    (found,) = judge(BOOT + line, JOURNAL, SCENARIO).findings
    assert found.title.startswith(title)


def test_report_ends_where_the_next_begins():
    one, two = reports(LOCKDEP + OURS)
    assert "rio_enqueue" not in one.text
    assert two.modules == ("sch_rio",)
    (warning,) = reports(WARNING)
    assert "nothing to do" not in warning.text
    assert warning.modules == ("sch_frio",)


@pytest.mark.parametrize(
    ("console", "journal", "problem"),
    [
        (BOOT.replace("Good, all", "bad, some"), JOURNAL, "lockdep passes its own tests"),
        (BOOT.replace("3/3", "2/3"), JOURNAL, "KCSAN passes its own tests"),
        (BOOT, JOURNAL.replace("debug_locks 1", "debug_locks 0"), "'debug_locks' is 0, not 1"),
        (BOOT, JOURNAL.replace("state enabled 1\n", ""), "'enabled' is not reported, not 1"),
        (BOOT, JOURNAL.replace("end\n", ""), "did not come to its end"),
        (BOOT, JOURNAL + "failed - unload sch_rio 60: busy\n", "failed - unload"),
        (BOOT, JOURNAL.replace("step 2 3 1", "step 2 0 4"), "never succeeded: loop change"),
        (BOOT, "end\n", "did not report its work"),
    ],
)
def test_run_that_proves_too_little_fails(console, journal, problem):
    verdict = judge(console, journal, SCENARIO)
    assert not verdict.passed
    assert any(problem in text for text in verdict.problems)


@pytest.mark.parametrize(("tries", "passed"), [(0, False), (99, True), (100, False)])
def test_line_that_changes_a_queue_anywhere_may_draw_empty_places_for_a_while(tries, passed):
    drawn = SCENARIO.replace("root rio", f"{scenario.PLACES} rio")
    never = JOURNAL.replace("step 2 3 1", f"step 2 0 {tries}")
    assert judge(BOOT, never, drawn).passed is passed


def test_refused_command_is_told_with_its_reason():
    assert steps(JOURNAL, SCENARIO)[2].reply == "Error: no queue there."


def compose(**changes):
    queues, markers = trial.SUBJECTS["modules"]
    words = {"seconds": 5, "processors": 2, "seed": 1} | changes
    return scenario.compose(queues, markers, **words).splitlines()


def test_scenario_has_floods_of_every_kind_on_every_processor():
    for processors in (2, 4):
        floods = [line.split() for line in compose(processors=processors) if line[:5] == "flood"]
        wanted = {(str(n), kind) for n in range(processors) for kind in ("tcp", "udp", "raw")}
        assert {(words[1], words[3]) for words in floods} == wanted


@pytest.mark.parametrize("kind", [*trial.SUBJECTS["modules"][0], *trial.SUBJECTS["modules"][1]])
@pytest.mark.parametrize("work", ["replace", "change", "dump", "reload", "dismantle"])
def test_scenario_does_all_work_to_every_kind(kind, work):
    queue = kind.module.startswith("sch_")
    asked = {
        "replace": f"qdisc replace .* {kind.name} " if queue else f"filter add .* {kind.name} ",
        "change": f"qdisc change .* {kind.name} " if queue else f"actions change .* {kind.name} ",
        "dump": "tc qdisc show" if queue else f"tc actions list action {kind.name}",
        "reload": f"reload {kind.module} ",
        "dismantle": f"dismantle T .* {kind.name} ",
    }[work]
    pattern = re.compile(f"^loop .*{asked}")
    assert any(pattern.search(line) for line in compose())


def read_archive(path: Path) -> dict[str, tuple[int, bytes]]:
    """Read a ``newc`` archive by the format's description: name to mode and content."""
    data, at, entries = path.read_bytes(), 0, {}
    while True:
        assert data[at : at + 6] == b"070701"
        words = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, name_size = words[1], words[6], words[11]
        name = data[at + 110 : at + 110 + name_size - 1].decode()
        at += (110 + name_size + 3) // 4 * 4
        if name == "TRAILER!!!":
            return entries
        entries[name] = (mode, data[at : at + size])
        at += (size + 3) // 4 * 4


def test_archive_holds_what_was_put_into_it(tmp_path):
    (tmp_path / "five").write_bytes(b"12345")
    guest.write(tmp_path / "archive", {"a/b/five": tmp_path / "five"}, {"scenario": "x\n"})
    entries = read_archive(tmp_path / "archive")
    assert entries["a/b/five"] == (0o100755, b"12345")
    assert entries["scenario"][1] == b"x\n"
    assert entries["var/run"] == (0o120777, b"../run")
    names = list(entries)
    assert names.index("a") < names.index("a/b") < names.index("a/b/five")


def test_guest_has_ip_tc_and_the_loader():
    names = guest.programs()
    assert {"bin/ip", "bin/tc"} < set(names)
    assert any("ld-linux" in name for name in names)


@pytest.fixture(scope="module")
def ready():
    if not shutil.which(guest.EMULATOR):
        pytest.skip(f"no emulator here: apt-get install {guest.PACKAGE}")
    if kernel.find() is None:
        pytest.skip("this kernel has not been built: `python -m tools.stress --prepare`")


def carry_out(subject, directory, seconds, **words):
    def ignore(*_):
        pass

    fixed = {"processors": 2, "seed": 1, "progress": ignore, "follow": ignore}
    return trial.carry_out(subject, directory, seconds=seconds, **fixed, **words)


@pytest.mark.nightly
def test_a_minute_of_change_under_traffic_leaves_no_report(ready, tmp_path):
    for seconds in (60, 240):  # a machine with other work to do gets through less in a minute
        verdict = carry_out("modules", tmp_path / str(seconds), seconds)
        assert [report.text for report in verdict.findings] == []
        if not any(problem.startswith("never succeeded") for problem in verdict.problems):
            break
    assert list(verdict.problems) == []
    assert verdict.watched > 1000


@pytest.mark.nightly
def test_modules_that_dump_without_locks_are_found_out(ready, tmp_path):
    """The control: nobody believes a detector that has never been seen to detect.

    Which of the two markers it is seen on is chance: the other is loaded, and may go unseen.
    """
    queues, markers = {"sch_rio", "sch_frio"}, {"act_tcpf", "act_token"}

    def racing(console):
        return {module for report in reports(console) if report.race for module in report.modules}

    def told(found):
        """Both queues and a marker; the other one may hide for a quarter of an hour."""
        return found >= queues and bool(found & markers)

    # Seconds on a machine of its own; on a busy one it takes what it takes.
    carry_out("unlocked", tmp_path, 2400, enough=lambda console: told(racing(console)))
    assert told(racing((tmp_path / "console.txt").read_text()))
