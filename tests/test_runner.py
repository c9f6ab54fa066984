"""The runner: what is skipped, what is made again, what is left behind."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from tcpf_lab.base.errors import DiskFullError, RequestError
from tcpf_lab.results import checksums
from tcpf_lab.results.layout import ExperimentFiles, read_json, write_json
from tcpf_lab.run import pool, runner
from tcpf_lab.run.runner import State, run_all, state
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import expand


class Here:
    """An executor that does the work at once, in this process."""

    def submit(self, function, *arguments):
        future = Future()
        future.set_result(function(*arguments))
        return future


@pytest.fixture
def files(tmp_path):
    return ExperimentFiles(tmp_path / "results", "tiny", "fake")


@pytest.fixture
def runs(recorded_experiment):
    return expand(recorded_experiment)


def kinds(events):
    return {event.run.seed: event.kind for event in events}


def test_complete_run_has_every_file_and_no_captures(fake, files, runs):
    (event,) = run_all(runs[:1], fake, files.results, Here())
    assert (event.kind, event.valid, event.detail) == ("finished", True, "")
    done = files.run(runs[0].id)
    assert {path.name for path in done.root.iterdir()} == {
        "run.yaml",
        "plan.txt",
        "manifest.json",
        "metrics.json",
        "series.npz",
        "SHA256SUMS",
        "log",
        "stats",
    }
    assert not files.partial(runs[0].id).root.exists()


def test_complete_runs_are_skipped(fake, files, runs):
    assert kinds(run_all(runs, fake, files.results, Here())) == dict.fromkeys((1, 2, 3), "finished")
    assert kinds(run_all(runs, fake, files.results, Here())) == dict.fromkeys((1, 2, 3), "skipped")


def test_a_run_that_is_skipped_is_told_before_the_next_is_looked_at(fake, files, runs, monkeypatch):
    list(run_all(runs, fake, files.results, Here()))
    examined, examine = [], runner.examine
    monkeypatch.setattr(
        runner, "examine", lambda run, *a, **b: examined.append(run) or examine(run, *a, **b)
    )
    happening = run_all(runs, fake, files.results, Here())
    assert next(happening).run is examined[0]
    assert len(examined) == 1
    happening.close()


def test_force_repeats_complete_runs(fake, files, runs):
    list(run_all(runs, fake, files.results, Here()))
    marker = files.run(runs[0].id).root / "mark"
    marker.touch()
    assert kinds(run_all(runs, fake, files.results, Here(), force=True))[1] == "finished"
    assert not marker.exists()


@pytest.mark.parametrize(
    "change", ["traffic.warmup=2 s", "tcp.sack=false", "cases.NoMark+RED.queue.max=16 kB"]
)
def test_changed_spec_makes_a_run_stale_and_it_is_made_again(fake, files, runs, change):
    list(run_all(runs[:1], fake, files.results, Here()))
    (changed,) = expand(apply_overrides(runs[0].experiment, [change]))
    assert changed.id == runs[0].id
    assert state(changed, files, fake.identity) is State.STALE
    assert kinds(run_all([changed], fake, files.results, Here())) == {1: "finished"}
    assert state(changed, files, fake.identity) is State.COMPLETE


def test_other_kernel_makes_a_run_stale(fake, files, runs):
    list(run_all(runs[:1], fake, files.results, Here()))
    other = replace(fake, kernel="another kernel")
    assert state(runs[0], files, other.identity) is State.STALE
    assert state(runs[0], files, None) is State.COMPLETE
    assert state(runs[0], files, lambda _plan: {}) is State.COMPLETE  # its kernel is not built here


def test_wanting_captures_repeats_a_run_that_has_none(fake, files, runs):
    list(run_all(runs[:1], fake, files.results, Here()))
    assert kinds(run_all(runs[:1], fake, files.results, Here(), keep_pcaps=True)) == {1: "finished"}
    kept = sorted(path.name for path in files.run(runs[0].id).pcap.iterdir())
    assert kept == ["R1-in.pcap.zst", "R1-out.pcap.zst", "S.pcap.zst"]
    assert kinds(run_all(runs[:1], fake, files.results, Here(), keep_pcaps=True)) == {1: "skipped"}


def test_failed_run_keeps_its_log_and_stops_no_other(fake, files, runs):
    broken = replace(fake, failing_seeds=(2,))
    events = list(run_all(runs, broken, files.results, Here()))
    assert kinds(events) == {1: "finished", 2: "failed", 3: "finished"}
    assert "run with seed 2: asked to fail" in next(e.detail for e in events if e.run.seed == 2)
    assert state(runs[1], files, fake.identity) is State.FAILED
    assert files.partial(runs[1].id).log.is_dir()
    assert kinds(run_all(runs, fake, files.results, Here())) == {
        1: "skipped",
        2: "finished",
        3: "skipped",
    }


def test_full_disk_stops_the_campaign_and_leaves_nothing_half_made(fake, files, runs, monkeypatch):
    begun, stopped = [], threading.Event()

    def execute(_bed, _plan, run, seed):
        begun.append(seed)
        if seed > 1:  # which may have begun meanwhile
            assert stopped.wait(30)
        raise OSError(errno.ENOSPC, "No space left on device", str(run.stats / "x"))

    monkeypatch.setattr(type(fake), "execute", execute)
    with ThreadPoolExecutor(1) as executor:
        happening = run_all(runs, fake, files.results, executor)
        assert next(happening).disk_full
        with pytest.raises(DiskFullError, match="the disk is full; 0 of 3 runs are complete"):
            next(happening)
        stopped.set()
    assert 3 not in begun
    assert list(files.root.iterdir()) == []


def test_interrupted_run_leaves_nothing(fake, files, runs, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.summary, "analyse", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(run_all(runs[:1], fake, files.results, Here()))
    assert list(files.root.iterdir()) == []


def test_running_the_resolved_spec_of_a_run_is_the_same_run(fake, files, runs):
    list(run_all(runs[1:2], fake, files.results, Here()))
    (again,) = expand(load(files.run(runs[1].id).spec))
    assert again.id == runs[1].id
    assert state(again, files, fake.identity) is State.COMPLETE


def test_analysis_of_kept_captures_gives_the_same_bytes(fake, files, runs):
    list(run_all(runs[:1], fake, files.results, Here(), keep_pcaps=True))
    done = files.run(runs[0].id)
    before = done.metrics.read_bytes()
    done.metrics.unlink()
    runner.summary.analyse(done)
    assert done.metrics.read_bytes() == before


def test_manifest_says_what_the_run_is_and_what_is_expected(fake, files, runs):
    list(run_all(runs[:1], fake, files.results, Here()))
    manifest = read_json(files.run(runs[0].id).manifest)
    assert manifest["run"] == "nomark+red-flows3-seed1"
    assert manifest["clock"] == "virtual"
    assert manifest["window_s"] == [1.0, 5.0]
    options = {"limit": 60000, "min": 5000, "max": 15000, "ewma": 6, "probability": 0.1}
    assert manifest["expect"]["qdisc"]["options"] == options


def test_truncated_capture_fails_the_run_with_file_and_offset(fake, files, runs, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(fake.recorded, copy)
    capture = copy / "pcap" / "S.pcap.zst"
    capture.write_bytes(capture.read_bytes()[:2000])
    (event,) = run_all(runs[:1], replace(fake, recorded=copy), files.results, Here())
    assert event.kind == "failed"
    assert "S.pcap.zst" in event.detail


def test_second_program_in_the_same_directory_is_refused(fake, files, runs):
    with files.locked(), pytest.raises(RequestError, match="another tcpf-lab process"):
        list(run_all(runs, fake, files.results, Here()))
    assert kinds(run_all(runs[:1], fake, files.results, Here())) == {1: "finished"}


def test_results_directory_that_cannot_be_made_is_a_wrong_request(fake, files, runs):
    files.results.write_text("a file")
    with pytest.raises(RequestError, match="is a file, not a directory"):
        list(run_all(runs, fake, files.results, Here()))


@pytest.mark.parametrize("damage", ["", "[]", "{", "null"])
@pytest.mark.parametrize("name", ["manifest.json", "metrics.json"])
def test_damaged_record_makes_a_run_stale(fake, files, runs, name, damage):
    list(run_all(runs[:1], fake, files.results, Here()))
    (files.run(runs[0].id).root / name).write_text(damage)
    assert state(runs[0], files, fake.identity) is State.STALE
    assert kinds(run_all(runs[:1], fake, files.results, Here())) == {1: "finished"}


def test_skipped_run_keeps_its_verdict(fake, files, runs):
    list(run_all(runs[:1], fake, files.results, Here()))
    done = files.run(runs[0].id)
    metrics = read_json(done.metrics)
    metrics["validity"] = {"valid": False, "reasons": ["a capture dropped packets"], "checks": []}
    write_json(done.metrics, metrics)
    checksums.renew(done)
    (event,) = run_all(runs[:1], fake, files.results, Here())
    assert (event.kind, event.valid) == ("skipped", False)
    assert event.detail == "a capture dropped packets"


def test_killed_worker_is_a_failed_run_and_stops_no_other(fake, files, runs):
    class Killed(Here):
        def submit(self, function, task):
            if task.run.seed != 2:
                return super().submit(function, task)
            future = Future()
            future.set_exception(BrokenExecutor("terminated abruptly"))
            return future

    events = list(run_all(runs, fake, files.results, Killed()))
    assert kinds(events) == {1: "finished", 2: "failed", 3: "finished"}
    assert "a worker process was killed" in next(e.detail for e in events if e.run.seed == 2)


def test_fault_in_the_analysis_fails_one_run_and_its_traceback_is_kept(
    fake, files, runs, monkeypatch
):
    def fault(*_):
        raise ValueError("an index is out of range")

    monkeypatch.setattr(runner.summary, "analyse", fault)
    (event,) = run_all(runs[:1], fake, files.results, Here())
    assert event.kind == "failed"
    assert "ValueError: an index is out of range" in event.detail
    kept = files.partial(runs[0].id).log / "traceback.txt"
    assert "in fault" in kept.read_text()


class Recorded(Here):
    """Notes what is handed in, in order."""

    def __init__(self):
        self.order = []

    def submit(self, function, task):
        self.order.append((task.run.experiment.name, task.run.flows, task.run.seed))
        return super().submit(function, task)


def test_what_takes_long_begins_first_whatever_experiment_it_belongs_to(fake, files, runs):
    settings = ["name=long", "traffic.duration=9 s", "matrix.flows=[2, 3]", "matrix.seed=1"]
    longer = expand(apply_overrides(runs[0].experiment, settings))
    executor = Recorded()
    list(run_all([*runs, *longer], fake, files.results, executor))
    assert executor.order == [("long", 3, 1), ("long", 2, 1), *(("tiny", 3, k) for k in (1, 2, 3))]


def test_runs_of_several_experiments_are_kept_apart_and_skipped_apart(fake, files, runs):
    (other,) = expand(apply_overrides(runs[0].experiment, ["name=other", "matrix.seed=1"]))
    assert other.id == runs[0].id
    list(run_all([other], fake, files.results, Here()))
    events = list(run_all([runs[0], other], fake, files.results, Here()))
    assert {e.run.experiment.name: e.kind for e in events} == {
        "tiny": "finished",
        "other": "skipped",
    }
    assert ExperimentFiles(files.results, "other", "fake").run(other.id).metrics.exists()


def test_every_directory_that_is_worked_in_is_locked(fake, files, runs):
    (other,) = expand(apply_overrides(runs[0].experiment, ["name=other", "matrix.seed=1"]))
    busy = ExperimentFiles(files.results, "other", "fake")
    with busy.locked(), pytest.raises(RequestError, match="another tcpf-lab process"):
        list(run_all([runs[0], other], fake, files.results, Here()))


# Worker processes and interrupts.


def states() -> tuple[set[signal.Signals], list[object]]:
    """Say which signals this process blocks, and what it does with interrupts."""
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, ())), [
        signal.getsignal(number) for number in pool.INTERRUPTS
    ]


def test_an_interrupt_cannot_reach_a_worker_before_it_leaves_them_to_its_parent() -> None:
    context = pool._Context()
    seen = context.SimpleQueue()
    worker = context.Process(target=lambda: seen.put(states()))
    worker.start()
    blocked, _ = seen.get()
    worker.join()
    assert set(pool.INTERRUPTS) <= blocked
    assert not set(pool.INTERRUPTS) & states()[0]


def test_a_worker_ignores_interrupts_and_blocks_nothing() -> None:
    with pool.local_pool(1) as workers:
        os.kill(workers.submit(os.getpid).result(), signal.SIGINT)
        blocked, handlers = workers.submit(states).result()
    assert not set(pool.INTERRUPTS) & blocked
    assert handlers == [signal.SIG_IGN] * 2


def test_a_worker_whose_parent_died_before_it_could_notice_ends() -> None:
    context = pool._Context()
    arguments = (context.RawValue("b", 0), context.Value("i", 0), os.getppid())
    worker = context.Process(target=pool._start_worker, args=arguments)
    worker.start()
    worker.join(30)
    assert worker.exitcode == 1


def test_every_worker_has_a_core_and_the_first_one_depends_on_the_program() -> None:
    cores = sorted(os.sched_getaffinity(0))
    with pool.local_pool(1) as workers:
        own = workers.submit(os.sched_getaffinity, 0).result()
    assert own == {cores[os.getpid() % len(cores)]}


def test_a_worker_that_is_lost_takes_the_others_along_and_nobody_waits() -> None:
    began = time.monotonic()
    with pool.local_pool(2) as workers:
        # One of them is still at work when the other is lost.
        tasks = [workers.submit(_pid_after, seconds) for seconds in (0.0, 600.0)]
        os.kill(tasks[0].result(), signal.SIGKILL)
        with pytest.raises(BrokenExecutor):
            tasks[1].result()
    assert time.monotonic() - began < 300


def _pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_a_pool_that_is_interrupted_while_it_begins_leaves_no_worker() -> None:
    """Nothing else ends them, and the interpreter waits for its children before it ends."""
    program = """
import concurrent.futures.process as process
from tcpf_lab.run import pool

def interrupted(executor):
    assert len(executor._processes) == 2
    raise KeyboardInterrupt

process._ExecutorManagerThread = interrupted
try:
    with pool.local_pool(2) as workers:
        workers.submit(print)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "interrupted\n"


@pytest.mark.parametrize("first", [0, 1])
def test_a_pool_ends_though_a_worker_is_killed_while_it_is_shut_down(first: int) -> None:
    """One of two idle workers has the lock that the other waits for."""

    def kill_one() -> None:
        time.sleep(0.5)
        os.kill(pids[1 - first], signal.SIGCONT)
        os.kill(pids[first], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    with pool.local_pool(2) as workers:
        for future in [workers.submit(time.sleep, 0.2) for _ in range(2)]:
            future.result()
        pids = list(workers._processes)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        killer.start()
    killer.join()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
