"""Who makes which run, and what becomes of it when a worker or the scheduler goes away.

There is no cluster here: a link whose workers do what the test says stands for it.
"""

from __future__ import annotations

import errno
import io
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from distributed.scheduler import KilledWorker

from tcpf_lab.base.errors import InterruptedRunError, RequestError, TestbedError
from tcpf_lab.results import storage
from tcpf_lab.results.layout import ExperimentFiles
from tcpf_lab.run import runner
from tcpf_lab.run.cluster import executor as cluster
from tcpf_lab.run.cluster import executor as cluster_watch
from tcpf_lab.run.cluster import worker as cluster_worker
from tcpf_lab.run.cluster.executor import DEATHS, ClusterExecutor
from tcpf_lab.run.cluster.link import Link
from tcpf_lab.run.cluster.worker import Delivery, Order
from tcpf_lab.run.runner import Event, State, run_all, state
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed.fake import FakeTestbed
from tcpf_lab.testbed.uml import package
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tcpf_lab.testbed.uml.kernel import Kernel
from tcpf_lab.testbed.uml.package import Package

ENOUGH_S = 60.0


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + ENOUGH_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@dataclass
class Sent:
    """One run that was sent to a worker, with what `Link.fetch` wants of a future of Dask."""

    order: Order
    worker: str
    key: str
    tell_ended: Callable[[str], None]
    outcome: Any = None
    status: str = "pending"
    released: bool = False
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def seed(self) -> int:
        return self.order.task.run.seed

    def end(self, outcome: Any) -> None:
        """End it as the scheduler tells: with a result, or with what the worker raised."""
        failed = isinstance(outcome, BaseException)
        self._end(outcome, "error" if failed else "finished")

    def lose(self) -> None:
        """End it as a cancelled one does, or one whose scheduler is gone."""
        self._end(CancelledError(), "cancelled")

    def _end(self, outcome: Any, status: str) -> None:
        self.outcome, self.status = outcome, status
        self.over.set()
        self.tell_ended(self.key)

    def result(self) -> Any:
        assert self.over.wait(ENOUGH_S)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    def release(self) -> None:
        self.released = True

    def deliver(self, scratch: Path) -> None:
        """End it as a worker does that has made it."""
        self.end(delivery(self.order, scratch, self.worker))


def delivery(order: Order, scratch: Path, worker: str) -> Delivery:
    files = replace(order.task.files, results=scratch / order.task.run.id)
    event = runner.carry_out(replace(order.task, files=files))
    root = files.run(order.task.run.id).root
    root = root if root.exists() else files.partial(order.task.run.id).root
    packed = storage.pack(root, storage.contents(root))
    return Delivery(event, packed, storage.sha256(packed), worker)


class Cluster:
    """A scheduler and its workers; gives links, as long as it is up."""

    def __init__(self) -> None:
        self.up = True
        self.there: set[str] = set()
        self.processes: dict[str, str] = {}  #: of workers that have been started again
        self.unfit: dict[str, str] = {}
        self.sent: list[Sent] = []
        self.cancelled: list[Sent] = []
        self.closed = 0
        self.waiting = threading.Event()  #: a fetch waits for what may never come

    def link(self) -> Cluster:
        if not self.up:
            raise RequestError("no scheduler answers")
        return self

    def workers(self) -> dict[str, str]:
        if not self.up:
            raise ConnectionError("closed")
        return {worker: self.processes.get(worker, "first") for worker in self.there}

    def visit(self, workers: set[str]) -> dict[str, str]:
        return {worker: self.unfit.get(worker, "") for worker in workers}

    def start(self, order: Order, worker: str, key: str, ended: Callable[[str], None]) -> Sent:
        if not self.up:
            raise ConnectionError("closed")
        self.sent.append(Sent(order, worker, key, ended))
        return self.sent[-1]

    def fetch(self, sent: Sent) -> Delivery:
        self.waiting.set()
        try:
            return Link.fetch(self, sent)
        finally:
            assert sent.released

    def cancel(self, sent: list[Sent]) -> None:
        self.cancelled += sent
        for one in sent:
            one.lose()

    def close(self) -> None:
        self.closed += 1

    def go_down(self) -> None:
        """End as a scheduler does: who waits for a run learns that it is lost."""
        self.up = False
        for one in self.sent:
            if not one.over.is_set():
                one.lose()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_watch, "LOOK_EVERY_S", 0.02)


@pytest.fixture
def farm() -> Cluster:
    farm = Cluster()
    farm.there = {"a"}
    return farm


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def executor(farm: Cluster, said: list[str]) -> Iterator[ClusterExecutor]:
    made = ClusterExecutor(farm.link, {"": "0" * 32}, said.append, patience=0.5)
    yield made
    made.shutdown()


@pytest.fixture
def files(tmp_path: Path) -> ExperimentFiles:
    return ExperimentFiles(tmp_path / "results", "tiny", "fake")


@pytest.fixture
def runs(recorded_experiment: Experiment) -> list[Run]:
    return list(expand(recorded_experiment))


class Campaign(threading.Thread):
    """The runs of an experiment, in a thread: what became of them, or what it ended in."""

    def __init__(
        self, runs: list[Run], fake: FakeTestbed, files: ExperimentFiles, executor: ClusterExecutor
    ) -> None:
        super().__init__(daemon=True)
        self.events: list[Event] = []
        self.error: BaseException | None = None
        self._happening = run_all(runs, fake, files.results, executor)
        self.start()

    def run(self) -> None:
        try:
            self.events.extend(self._happening)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def kinds(self) -> dict[int, str]:
        self.join(ENOUGH_S)
        assert not self.is_alive()
        assert len({event.run.seed for event in self.events}) == len(self.events), "counted twice"
        return {event.run.seed: event.kind for event in self.events}


ALL = dict.fromkeys((1, 2, 3), "finished")
#: What Dask says of a run that it has seen die with too many workers.
KILLED = KilledWorker("a run", None, 0)


def test_a_worker_makes_one_run_at_a_time_and_all_arrive_whole(
    fake, files, runs, farm, executor, tmp_path
):
    campaign = Campaign(runs, fake, files, executor)
    for number in (1, 2, 3):
        until(lambda n=number: len(farm.sent) == n)
        farm.sent[-1].deliver(tmp_path / "worker")
    assert campaign.kinds() == ALL
    assert [sent.worker for sent in farm.sent] == ["a"] * 3
    for run in runs:
        assert state(run, files, fake.identity) is State.COMPLETE
        assert not files.partial(run.id).root.exists()


def test_what_arrives_is_what_was_made(fake, files, runs, farm, executor, tmp_path):
    campaign = Campaign(runs[:1], fake, files, executor)
    until(lambda: farm.sent)
    farm.sent[0].deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "finished"}
    here = files.run(runs[0].id).root
    there = tmp_path / "worker" / runs[0].id / "tiny" / "fake" / runs[0].id
    assert storage.contents(here) == storage.contents(there)
    assert storage.pack(here, storage.contents(here)) == storage.pack(
        there, storage.contents(there)
    )


def test_a_run_whose_worker_leaves_goes_to_another(
    fake, files, runs, farm, executor, tmp_path, said
):
    campaign = Campaign(runs[:1], fake, files, executor)
    until(lambda: farm.sent)
    farm.there = {"b"}
    until(lambda: len(farm.sent) == 2)
    assert farm.cancelled == farm.sent[:1]
    farm.sent[1].deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "finished"}
    assert [sent.worker for sent in farm.sent] == ["a", "b"]
    assert said == [f"worker a is gone; another makes its run {runs[0].id}"]


def test_a_run_that_takes_its_workers_with_it_fails_and_stops_no_other(
    fake, files, runs, farm, executor, tmp_path
):
    campaign = Campaign(runs[:2], fake, files, executor)
    for number in range(1, DEATHS + 1):
        until(lambda n=number: len(farm.sent) == n)
        assert farm.sent[-1].seed == 1
        farm.sent[-1].end(KILLED)
        farm.there = {f"w{number}"}
    until(lambda: len(farm.sent) == DEATHS + 1)
    farm.sent[-1].deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "failed", 2: "finished"}
    (failed,) = (event for event in campaign.events if event.kind == "failed")
    assert f"{DEATHS} workers ended or left while they made it: a, w1, w2" in failed.detail
    assert "--lifetime" in failed.detail
    assert not files.run(runs[0].id).root.exists()


def test_a_run_that_its_worker_gives_up_to_end_goes_to_another(
    fake, files, runs, farm, executor, tmp_path, said
):
    campaign = Campaign(runs[:1], fake, files, executor)
    until(lambda: farm.sent)
    farm.sent[0].end(InterruptedRunError("the run is not wanted any more"))
    farm.there = {"a", "b"}  # the one that ends is still known for a while
    until(lambda: len(farm.sent) == 2)
    farm.sent[1].deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "finished"}
    assert [sent.worker for sent in farm.sent] == ["a", "b"]
    assert said == [f"worker a is gone; another makes its run {runs[0].id}"]


@pytest.mark.parametrize("told", [True, False])
def test_a_worker_that_comes_back_at_its_address_before_it_is_missed_makes_runs_again(
    fake, files, runs, farm, executor, tmp_path, said, told
):
    campaign = Campaign(runs[:1], fake, files, executor)
    until(lambda: farm.sent)
    if told:
        farm.sent[0].end(KILLED)
        until(lambda: said)
    farm.processes["a"] = "second"
    until(lambda: len(farm.sent) == 2)
    assert farm.cancelled == ([] if told else farm.sent[:1])
    farm.sent[1].deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "finished"}
    assert [sent.worker for sent in farm.sent] == ["a", "a"]


def test_a_worker_that_comes_back_at_its_address_is_looked_at_before_it_gets_a_run(
    fake, files, runs, farm, executor, tmp_path, said
):
    farm.unfit = {"a": "no room"}
    farm.processes["a"] = "second"
    until(lambda: said)
    campaign = Campaign(runs[:1], fake, files, executor)
    farm.there = {"a", "b"}
    until(lambda: farm.sent)
    farm.sent[0].deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "finished"}
    assert farm.sent[0].worker == "b"
    assert said == ["worker a is left out: no room"]


def test_after_a_restart_of_the_scheduler_what_has_not_arrived_is_made_again(
    fake, files, runs, farm, executor, tmp_path, said
):
    campaign = Campaign(runs, fake, files, executor)
    until(lambda: farm.sent)
    farm.sent[0].deliver(tmp_path / "worker")
    until(lambda: len(farm.sent) == 2)
    farm.go_down()
    until(lambda: any("is gone" in text for text in said))
    farm.there, farm.up = {"b", "c"}, True
    until(lambda: len(farm.sent) == 4)
    assert [(sent.seed, sent.worker) for sent in farm.sent[2:]] == [(2, "b"), (3, "c")]
    for sent in farm.sent[2:]:
        sent.deliver(tmp_path / "again")
    assert campaign.kinds() == ALL
    assert "the scheduler is there again" in said


def test_a_scheduler_that_restarts_takes_no_run_with_it_whatever_the_number(
    fake, files, runs, farm, executor, tmp_path
):
    campaign = Campaign(runs[:1], fake, files, executor)
    for number in range(1, DEATHS + 2):
        until(lambda n=number: len(farm.sent) == n)
        farm.go_down()
        until(lambda n=number: farm.closed == n)
        farm.up = True
    until(lambda: len(farm.sent) == DEATHS + 2)
    farm.sent[-1].deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "finished"}


def test_a_run_that_arrives_after_it_was_given_up_is_not_counted(
    fake, files, runs, farm, executor, tmp_path
):
    campaign = Campaign(runs[:1], fake, files, executor)
    until(lambda: farm.sent)
    late = farm.sent[0]
    farm.waiting.clear()
    late.tell_ended(late.key)  # somebody waits for it from now on
    assert farm.waiting.wait(ENOUGH_S)
    executor.post(executor._died, executor._running[late.key])
    farm.there = {"b"}
    until(lambda: len(farm.sent) == 2)
    late.deliver(tmp_path / "late")
    farm.sent[1].deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "finished"}


def test_a_scheduler_that_stays_away_ends_the_work_with_a_clear_error(
    fake, files, runs, farm, executor, tmp_path
):
    campaign = Campaign(runs, fake, files, executor)
    until(lambda: farm.sent)
    farm.sent[0].deliver(tmp_path / "worker")
    until(lambda: campaign.events)
    farm.go_down()
    campaign.join(ENOUGH_S)
    assert isinstance(campaign.error, TestbedError)
    assert "has not come back for" in campaign.error.message
    assert [state(run, files, fake.identity) for run in runs] == [
        State.COMPLETE,
        State.MISSING,
        State.MISSING,
    ]


def test_the_log_of_a_failed_run_comes_back_and_its_worker_is_named(
    fake, files, runs, farm, executor, tmp_path
):
    campaign = Campaign(runs[:1], replace(fake, failing_seeds=(1,)), files, executor)
    until(lambda: farm.sent)
    farm.sent[0].deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "failed"}
    (event,) = campaign.events
    assert "asked to fail" in event.detail
    assert event.detail.endswith("worker: a")
    assert files.partial(runs[0].id).plan.exists()
    assert state(runs[0], files, fake.identity) is State.FAILED


def test_a_damaged_delivery_fails_the_run_and_leaves_nothing(
    fake, files, runs, farm, executor, tmp_path
):
    campaign = Campaign(runs[:1], fake, files, executor)
    until(lambda: farm.sent)
    good = delivery(farm.sent[0].order, tmp_path / "worker", "a")
    farm.sent[0].end(replace(good, packed=good.packed[:-1] + b"x"))
    assert campaign.kinds() == {1: "failed"}
    assert "it arrived damaged" in campaign.events[0].detail
    assert list(files.root.iterdir()) == []


def leads_elsewhere() -> bytes:
    """Pack a file that is to be beside the directory of the run."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../x"))
    return zstandard.compress(buffer.getvalue())


@pytest.mark.parametrize(
    ("packed", "expected"),
    [
        (leads_elsewhere(), "holds a name outside its directory: '../x'"),
        (b"no archive", "archive is damaged"),
    ],
    ids=["elsewhere", "none"],
)
def test_an_archive_that_leads_elsewhere_or_is_none_leaves_nothing(
    fake, files, runs, farm, executor, packed, expected
):
    campaign = Campaign(runs[:1], fake, files, executor)
    until(lambda: farm.sent)
    event = Event(runs[0], "finished")
    farm.sent[0].end(Delivery(event, packed, storage.sha256(packed), "a"))
    assert campaign.kinds() == {1: "failed"}
    assert expected in campaign.events[0].detail
    assert list(files.root.iterdir()) == []


def test_a_run_that_was_damaged_before_it_was_packed_fails_and_leaves_nothing(
    fake, files, runs, farm, executor, tmp_path
):
    campaign = Campaign(runs[:1], fake, files, executor)
    until(lambda: farm.sent)
    good = delivery(farm.sent[0].order, tmp_path / "worker", "a")
    root = tmp_path / "worker" / runs[0].id / "tiny" / "fake" / runs[0].id
    with (root / "plan.txt").open("a") as plan:
        plan.write("# a bad sector\n")
    packed = storage.pack(root, storage.contents(root))
    farm.sent[0].end(replace(good, packed=packed, sha256=storage.sha256(packed)))
    assert campaign.kinds() == {1: "failed"}
    assert "damaged on the worker: plan.txt" in campaign.events[0].detail
    assert list(files.root.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("unheard of"), "ValueError: unheard of"),
        # These are also what a scheduler that is gone ends calls with.
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (TimeoutError("too late"), "TimeoutError: too late"),
        (CancelledError(), "CancelledError"),
    ],
)
def test_whatever_a_worker_cannot_do_fails_its_run_alone(
    fake, files, runs, farm, executor, tmp_path, said, error, expected
):
    campaign = Campaign(runs[:2], fake, files, executor)
    until(lambda: farm.sent)
    farm.sent[0].end(error)
    until(lambda: len(farm.sent) == 2)
    farm.sent[1].deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "failed", 2: "finished"}
    (failed,) = (event for event in campaign.events if event.kind == "failed")
    assert expected in failed.detail
    assert failed.detail.endswith("worker: a")
    assert farm.closed == 0
    assert said == []


def test_unfit_workers_are_all_named_before_anything_is_made(farm, said):
    farm.there = {"a", "b", "c"}
    farm.unfit = {"a": "missing programs: tcpdump", "c": "Python is 3.12, here 3.11"}
    with pytest.raises(TestbedError) as caught:
        ClusterExecutor(farm.link, {"": "0" * 32}, said.append)
    assert "- a: missing programs: tcpdump\n" in caught.value.message
    assert "- c: Python is 3.12, here 3.11" in caught.value.message
    assert farm.closed == 1


def test_a_worker_that_joins_later_gets_runs_and_an_unfit_one_none(
    fake, files, runs, farm, executor, tmp_path, said
):
    campaign = Campaign(runs[:2], fake, files, executor)
    until(lambda: farm.sent)
    farm.unfit = {"bad": "no room"}
    farm.there = {"a", "bad", "good"}
    until(lambda: len(farm.sent) == 2)
    assert farm.sent[1].worker == "good"
    assert said == ["worker bad is left out: no room"]
    for sent in farm.sent:
        sent.deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "finished", 2: "finished"}


def test_a_cluster_without_workers_is_told_and_waited_for(fake, files, runs, farm, said, tmp_path):
    farm.there = set()
    executor = ClusterExecutor(farm.link, {"": "0" * 32}, said.append)
    assert said == ["the cluster has no worker yet; runs begin when one joins"]
    campaign = Campaign(runs[:1], fake, files, executor)
    farm.there = {"a"}
    until(lambda: farm.sent)
    farm.sent[0].deliver(tmp_path / "worker")
    assert campaign.kinds() == {1: "finished"}
    executor.shutdown()


def test_an_end_cancels_what_is_under_way(fake, files, runs, farm, executor):
    Campaign(runs, fake, files, executor)
    until(lambda: farm.sent)
    executor.shutdown()
    assert farm.cancelled == farm.sent
    assert farm.closed == 1
    assert list(files.root.iterdir()) == []


def test_a_run_that_only_needs_analysis_does_not_travel(
    fake, files, runs, farm, executor, monkeypatch
):
    uncaptured = apply_overrides(runs[0].experiment, ["traffic.captures=false", "matrix.seed=1"])
    (run,) = expand(uncaptured)
    task = runner.Task(run, fake, files, keep_pcaps=False, commit="")
    done = Event(run, "analysed")
    monkeypatch.setattr(runner, "analysed", lambda _task: done)
    assert executor.submit(runner.analyse_again, task).result(ENOUGH_S) is done
    assert farm.sent == []
    monkeypatch.setattr(runner, "analysed", lambda _task: None)  # its counters are damaged
    executor.submit(runner.analyse_again, task)
    until(lambda: farm.sent)


def test_who_waits_is_told_when_the_dispatcher_itself_fails(
    fake, files, runs, farm, executor, monkeypatch
):
    def fault(*_):
        raise ValueError("a fault")

    monkeypatch.setattr(cluster.uuid, "uuid4", fault)
    campaign = Campaign(runs[:1], fake, files, executor)
    campaign.join(ENOUGH_S)
    assert isinstance(campaign.error, ValueError)


def test_workers_get_each_kernel_that_runs_need_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def built(key: str) -> Kernel:
        return Kernel(Path(key) / "linux", key, key, "standard", "7.3.4", "", (), {}, {}, {})

    def packed(kernel: Kernel) -> Package:
        seen.append(kernel.key)
        return Package(kernel.key, b"")

    seen: list[str] = []
    monkeypatch.setattr(package, "pack", packed)
    bed = UmlTestbed(built("usual"), named={"7.3": built("seven"), "mine": built("seven")})
    spec = load(Path(__file__).parent / "data/recorded-run/experiment.yaml")
    runs = list(expand(apply_overrides(spec, ['matrix.kernel=["7.3", "mine"]'])))
    packages = cluster.packed(bed, runs)
    assert {name: one.digest for name, one in packages.items()} == {"7.3": "seven", "mine": "seven"}
    assert seen == ["seven"]
    assert cluster.packed(bed, list(expand(spec))).keys() == {""}
    there = cluster_worker._here(bed, {"7.3": "hash", "mine": "hash"})
    assert isinstance(there, UmlTestbed)
    assert {one.directory.name for one in there.named.values()} == {"hash"}
    assert there.kernel == bed.kernel
