"""Runs on a real scheduler and real workers, which are killed meanwhile.

The workers are processes of this machine, each with a cache of its own, as on machines of their
own: at first there is no kernel in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tcpf_lab.base.errors import RequestError, TestbedError
from tcpf_lab.results.layout import ExperimentFiles, read_json
from tcpf_lab.run import campaign
from tcpf_lab.run.cluster import link as cluster_link
from tcpf_lab.run.cluster import worker as cluster_worker
from tcpf_lab.run.cluster.executor import cluster_executor
from tcpf_lab.run.cluster.link import Link, Outfit
from tcpf_lab.run.cluster.worker import Order
from tcpf_lab.run.runner import Event, Task, run_all
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed.fake import FakeTestbed
from tcpf_lab.testbed.uml import package
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tools.bench.local_cluster import LocalCluster

ROOT = Path(__file__).parent.parent
SPEC = Path(__file__).parent / "data" / "recorded-run" / "experiment.yaml"
ENOUGH_S = 300.0  # of a machine that may be busy with something else


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + ENOUGH_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def processes_in(directory: Path) -> list[int]:
    """Find the processes that work in a directory, removed or not: guests and what they run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if str((entry / "cwd").readlink()).startswith(f"{directory}/"):
                    found.append(int(entry.name))
    return found


class Here:
    """An executor that does the work at once, in this process."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future


class Campaign(threading.Thread):
    """All runs on a cluster, in a thread."""

    def __init__(self, cluster: LocalCluster, uml: UmlTestbed, results: Path) -> None:
        super().__init__(daemon=True)
        self.runs = the_runs(uml)
        self.events: list[Event] = []
        self.said: list[str] = []
        self._cluster, self._uml, self.results = cluster, uml, results
        self.files = ExperimentFiles(results, "tiny", "uml")
        self.start()

    def run(self) -> None:
        address = self._cluster.address
        with cluster_executor(address, self._uml, self.runs[:1], self.said.append) as executor:
            self.events.extend(run_all(self.runs, self._uml, self.results, executor))

    def finished(self) -> list[int]:
        """Return the seeds of the runs that finished, in the order of the seeds."""
        self.join(ENOUGH_S)
        assert not self.is_alive(), self.said
        assert {event.kind for event in self.events} == {"finished"}, self.events
        return sorted(event.run.seed for event in self.events)


def the_runs(uml: UmlTestbed) -> list[Run]:
    """Give runs that name their kernel: workers get the package of each."""
    return list(expand(apply_overrides(load(SPEC), ["kernel=6.12"]).on(uml.generator)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path_factory.mktemp("cluster"), {"PYTHONPATH": str(ROOT)})
    made.start_scheduler()
    yield made
    made.stop()


def start(cluster: LocalCluster, name: str) -> None:
    cluster.start_worker(name, {"XDG_CACHE_HOME": str(cache(cluster, name))})


def joined(link: Link, starting: Callable[[], None]) -> set[str]:
    """Start workers; return the addresses of those that are there then, and were not before."""
    before = link.workers().keys()
    starting()
    until(lambda: link.workers().keys() - before)
    return link.workers().keys() - before


def cache(cluster: LocalCluster, name: str) -> Path:
    return cluster.directory / f"{name}-cache"


@pytest.fixture(scope="module")
def one_killed(
    cluster: LocalCluster, uml: UmlTestbed, tmp_path_factory: pytest.TempPathFactory
) -> Campaign:
    """Two workers, of which the first to have a guest is killed while it has it."""
    with closing(Link(cluster.address, Outfit(uml, {"": package.pack(uml.kernel)}, []))) as link:
        for name in ("a", "b"):  # both before there is work: one alone would do all of it
            joined(link, partial(start, cluster, name))
    campaign = Campaign(cluster, uml, tmp_path_factory.mktemp("one-killed"))
    until(lambda: processes_in(cluster.files("a")))
    cluster.kill_worker("a")
    return campaign


@pytest.mark.uml
@pytest.mark.full
def test_all_runs_finish_once_though_a_worker_is_killed_with_a_run(
    one_killed: Campaign, cluster: LocalCluster
) -> None:
    assert one_killed.finished() == [1, 2, 3]
    assert [text for text in one_killed.said if "is gone; another makes its run" in text]
    made = {path.name for path in one_killed.files.root.iterdir()}
    assert made == {run.id for run in one_killed.runs}


@pytest.mark.uml
@pytest.mark.full
def test_no_guest_survives_its_worker(one_killed: Campaign, cluster: LocalCluster) -> None:
    one_killed.finished()
    until(lambda: not processes_in(cluster.files("a")))
    until(lambda: not processes_in(cluster.files("b")))


@pytest.mark.uml
@pytest.mark.full
def test_a_worker_without_a_kernel_gets_it(
    one_killed: Campaign, cluster: LocalCluster, uml: UmlTestbed
) -> None:
    one_killed.finished()
    received = cache(cluster, "b") / "tcpf-lab" / "received"
    (entry,) = received.iterdir()
    assert package.received(entry.name, received) == entry
    assert entry.name == package.pack(uml.kernel).digest
    assert not (entry / "tree").exists()
    assert not (received.with_name("kernel")).exists()


@pytest.mark.uml
@pytest.mark.full
def test_a_run_of_a_worker_has_the_bytes_of_one_made_here(
    one_killed: Campaign, uml: UmlTestbed, tmp_path: Path
) -> None:
    one_killed.finished()
    run = one_killed.runs[0]
    list(run_all([run], uml, tmp_path, Here()))
    here = ExperimentFiles(tmp_path, "tiny", "uml").run(run.id).root
    there = one_killed.files.run(run.id).root
    names = {path.relative_to(here) for path in here.rglob("*") if path.is_file()}
    assert names == {path.relative_to(there) for path in there.rglob("*") if path.is_file()}
    compared = {n for n in names if n.parts[0] != "log" and n.name != "manifest.json"}
    assert {"metrics.json", "series.npz", "plan.txt"} <= {str(name) for name in compared}
    differing = [n for n in compared if (here / n).read_bytes() != (there / n).read_bytes()]
    assert differing == []
    manifests = [read_json(root / "manifest.json") for root in (here, there)]
    for manifest in manifests:
        del manifest["facts"], manifest["git_commit"]  # the latter is that of whoever ordered it
    assert manifests[0] == manifests[1]


@pytest.mark.uml
@pytest.mark.full
def test_all_runs_finish_once_though_the_scheduler_is_killed_and_started_again(
    one_killed: Campaign, cluster: LocalCluster, uml: UmlTestbed, tmp_path: Path
) -> None:
    one_killed.finished()
    campaign = Campaign(cluster, uml, tmp_path)
    until(lambda: processes_in(cluster.files("b")))
    cluster.kill_scheduler()
    cluster.workers["b"].wait(ENOUGH_S)  # it ends with its scheduler, and its guest with it
    until(lambda: not processes_in(cluster.files("b")))
    until(lambda: any("the scheduler is gone" in text for text in campaign.said))
    cluster.start_scheduler()
    start(cluster, "c")
    assert campaign.finished() == [1, 2, 3]
    assert "the scheduler is there again" in campaign.said
    assert {path.name for path in campaign.files.root.iterdir()} == {r.id for r in campaign.runs}


@pytest.mark.uml
@pytest.mark.full
def test_ctrl_c_ends_the_guests_and_the_same_command_goes_on(
    cluster: LocalCluster, uml: UmlTestbed, tmp_path: Path
) -> None:
    if "c" not in cluster.workers:
        start(cluster, "c")
    words = ["run", str(SPEC), "--cluster", cluster.address, "--results", str(tmp_path), "--json"]
    long = ["--set", "traffic.duration=300 s"]  # so that it does not end before it is interrupted
    command = [sys.executable, "-m", "tcpf_lab", *words, *long]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    at_work = [cluster.files(name) for name in cluster.workers]
    until(lambda: any(map(processes_in, at_work)) or first.poll() is not None)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=ENOUGH_S)
    assert first.returncode == 130, said
    assert "interrupted; complete runs remain" in said
    assert "Traceback" not in said
    until(lambda: not any(map(processes_in, at_work)))
    assert cluster.workers["c"].poll() is None
    assert not list(tmp_path.rglob("*.partial"))
    second = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    ended = [run["state"] for run in json.loads(second.stdout)["runs"]]
    assert len(ended) == 3
    assert set(ended) <= {"finished", "skipped"}


@pytest.mark.uml
@pytest.mark.full
def test_a_worker_of_another_version_is_named_with_both(
    cluster: LocalCluster, uml: UmlTestbed, tmp_path: Path
) -> None:
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tcpf_lab", tmp_path / "tcpf_lab", ignore=ignore)
    with (tmp_path / "tcpf_lab" / "base" / "units.py").open("a") as source:
        source.write("# another version\n")
    with closing(Link(cluster.address, Outfit(uml, {"": package.pack(uml.kernel)}, []))) as link:
        (other,) = joined(
            link, lambda: cluster.start_worker("other", {"PYTHONPATH": str(tmp_path)})
        )
    with (
        pytest.raises(TestbedError, match="workers that cannot make these runs") as caught,
        cluster_executor(cluster.address, uml, [], print),
    ):
        pass
    (named,) = (line for line in str(caught.value).splitlines() if line.startswith("  - "))
    assert named.startswith(f"  - {other}: tcpf-lab is 0.1.0 (")
    assert f"here 0.1.0 ({cluster_worker.CODE})" in named
    cluster.kill_worker("other")


@pytest.mark.full
def test_what_the_disk_of_a_worker_refuses_is_its_own_and_not_the_schedulers(
    cluster: LocalCluster, fake: FakeTestbed, recorded_experiment: Any, tmp_path: Path
) -> None:
    run = next(iter(expand(recorded_experiment)))
    files = ExperimentFiles(tmp_path, "tiny", "fake")
    order = Order(Task(run, fake, files, keep_pcaps=False, commit=""), {}, cluster_worker.CODE)
    ended = threading.Event()
    with closing(Link(cluster.address, Outfit(fake, {"": package.Package("", b"")}, []))) as link:
        (worker,) = joined(link, lambda: start(cluster, "diskless"))
        shutil.rmtree(cluster.files("diskless"))
        sent = link.start(order, worker, "a-run", lambda _key: ended.set())
        assert ended.wait(ENOUGH_S)
        with pytest.raises(TestbedError, match="could not make it: FileNotFoundError"):
            link.fetch(sent)
        assert worker in link.workers()
    cluster.kill_worker("diskless")


@pytest.mark.full
def test_a_worker_that_comes_back_at_its_address_is_known_for_another(
    cluster: LocalCluster, fake: FakeTestbed
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["worker", cluster.address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    words += ["--host", "127.0.0.1", "--worker-port", str(port), "--name", "same"]
    words += ["--local-directory", str(cluster.files("same"))]
    address, seen = f"tcp://127.0.0.1:{port}", []
    with closing(Link(cluster.address, Outfit(fake, {"": package.Package("", b"")}, []))) as link:
        for _ in range(2):
            cluster.workers["same"] = cluster._start("same", words, {})
            until(lambda: link.workers().get(address, "") not in {"", *seen})
            seen.append(link.workers()[address])
            assert link.workers()[address] == seen[-1]
            cluster.kill_worker("same")
    assert len(set(seen)) == 2


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere", "walkie://talkie:1"])
def test_an_address_without_a_scheduler_is_told_with_what_starts_one(
    fake: FakeTestbed, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_link, "CONNECT_S", 1.0)
    outfit = Outfit(fake, {"": package.Package("", b"")}, [])
    with pytest.raises(RequestError, match="no scheduler answers") as caught:
        Link(address, outfit)
    assert caught.value.where == f"--cluster {address}"
    assert "dask scheduler" in caught.value.hint
    assert "dask worker" in caught.value.hint


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--jobs", "2"], "--jobs is for this machine"),
        (["--testbed", "fake"], "only 'uml' does"),
    ],
)
def test_what_does_not_go_together_is_refused(lab, spec, words, expected):
    status, _, said = lab("run", spec, "--cluster", "tcp://127.0.0.1:1", *words)
    assert status == 2
    assert expected in said


def test_without_the_extra_it_is_told_what_to_install(lab, spec, monkeypatch):
    monkeypatch.setattr(campaign, "OF_CLUSTERS", "a_package_that_is_not_there")
    status, _, said = lab("run", spec, "--cluster", "tcp://127.0.0.1:1")
    assert status == 2
    assert "pip install 'tcpf-lab[cluster]'" in said


@pytest.mark.full
def test_the_command_line_does_not_load_what_only_a_cluster_needs() -> None:
    loaded = "import sys, tcpf_lab.cli.main, tcpf_lab.cli.run"
    program = f"{loaded}; print({{'distributed', 'dask'}} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout == "set()\n"


def test_a_worker_says_what_is_in_the_way_on_its_machine(
    fake: FakeTestbed, recorded_experiment: Any, tmp_path: Path
) -> None:
    broken = FakeTestbed(tmp_path / "nothing")
    samples = expand(recorded_experiment)
    assert cluster_worker._problems(broken, samples) == [f"no recorded run in {broken.recorded}"]
    assert cluster_worker._problems(fake, samples) == []


@pytest.mark.full
def test_workers_of_one_machine_claim_cores_of_their_own() -> None:
    program = (
        "from tcpf_lab.run.cluster import worker as w\n"
        f"w._CLAIM = '\\0tcpf-lab-test-{os.getpid()}-on-core-'\n"  # others may be at work here
        "core = w._own_core()\n"
        "print(core and core[0], flush=True)\n"
        "input()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    claimed = [process.stdout.readline().strip() for process in processes if process.stdout]
    for process in processes:
        process.communicate("\n")
    cores = [core for core in claimed if core != "None"]
    allowed = os.sched_getaffinity(0)
    assert len(claimed) == 2
    assert len(set(cores)) == len(cores) == min(2, len(allowed))
    assert set(map(int, cores)) <= allowed
