"""What several test modules need: a recorded run, a fake testbed, the built kernel.

A test may run on a machine with CPU steal (``tcpf_lab/testbed/steal.py``).
Time limits of an agent and an sshd are in real seconds. With 90 % steal they expire before the
program has had its time. Such a failure is not the program's, so the test is rerun, and the summary
lists it. Tests without such limits are not rerun: data races, wrong bytes, findings of the fuzzer.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from hypothesis import HealthCheck, settings
from run_maker import locked, make_run, make_runs

from tcpf_lab.results.layout import ExperimentFiles, RunFiles
from tcpf_lab.spec.load import apply_overrides, dump, load
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed import registry
from tcpf_lab.testbed.fake import FakeTestbed
from tcpf_lab.testbed.steal import CpuTicks
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tools.parts import RECORDED, read_parts, recorded_run, write_parts

#: A test that fails is rerun if CPU steal exceeded this share.
TOLERATED = 0.2
#: Minimum of stolen ticks (a second): fewer disturb no time limit.
NOTICED = 100
#: Tests whose limits are a wall clock's, below ``tests/``.
OF_REAL_TIME = (
    "agent",
    "testbed",
    "vm",
    "report/pages",  # a browser's answers
    "test_faults.py",
    "test_notebooks.py",
    "test_two_testbeds.py",
)


def is_of_real_time(test: Path, tests: Path) -> bool:
    """Return whether a file of tests has time limits in real seconds."""
    return any(test.is_relative_to(tests / name) for name in OF_REAL_TIME)


class Watch:
    """From the beginning of a test's latest attempt."""

    def __init__(self, read: Callable[[], CpuTicks] = CpuTicks.read) -> None:
        self._read = read
        self._start = read()

    def begin(self) -> None:
        """Begin a test, or do it again."""
        self._start = self._read()

    def starved(self) -> bool:
        """Return whether CPU steal since then is more than a test in real time tolerates."""
        now = self._read()
        noticed = now.stolen - self._start.stolen >= NOTICED
        return noticed and self._start.steal_share(now) > TOLERATED


PLANS = Path(__file__).parent / "golden" / "plans.txt"
DATA = Path(__file__).parent / "data"

# How long an example takes says how busy the machine is.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

watch = Watch()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files anew; review the diff"
    )


def pytest_configure() -> None:
    """Let the tests say how wide a screen is: readline has told xdist's workers that it is 80."""
    recorded_run()
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Rerun failed tests in real time after CPU steal."""
    if config.option.usepdb:  # which has the one failure to look at
        return
    again = pytest.mark.flaky(reruns=2, reruns_delay=10, condition=watch.starved)
    for item in items:
        if is_of_real_time(item.path, Path(__file__).parent):
            item.add_marker(again)


@pytest.fixture
def standard_input(tmp_path: Path) -> Iterator[Callable[[bytes | int], None]]:
    """Give this process a standard input: these bytes, or what a file descriptor has."""
    kept = os.dup(0)

    def give(data: bytes | int) -> None:
        if isinstance(data, int):
            os.dup2(data, 0)
            return
        with TemporaryFile(dir=tmp_path) as file:
            file.write(data)
            file.seek(0)
            os.dup2(file.fileno(), 0)

    yield give
    os.dup2(kept, 0)
    os.close(kept)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    watch.begin()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that holds a plan to that in ``golden/plans.txt`` (or writes it anew)."""

    def compare(name: str, text: str) -> None:
        parts = read_parts(PLANS)
        if request.config.getoption("--update-golden"):
            write_parts(PLANS, dict(sorted({**parts, name: text}.items())))
        else:
            assert text == parts.get(name), "`--update-golden` writes it anew"

    return compare


@pytest.fixture
def recorded() -> Path:
    """Return a run of ``experiment.yaml`` as the uml testbed left it."""
    return RECORDED


@pytest.fixture
def recorded_experiment() -> Experiment:
    return load(RECORDED / "experiment.yaml")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a results directory with the three runs of the recorded experiment, to copy."""
    results = tmp_path_factory.mktemp("made") / "results"
    make_runs(results, FakeTestbed(RECORDED), load(RECORDED / "experiment.yaml"))
    return results


@pytest.fixture
def ran(made: Path, tmp_path: Path) -> Path:
    """Return the directory of three complete runs with their captures and without a report."""
    shutil.copytree(made, tmp_path / "results")
    return tmp_path / "results" / "tiny" / "fake"


@pytest.fixture
def fake(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTestbed:
    """Return the fake testbed, registered as ``fake``."""
    testbed = FakeTestbed(recorded)
    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: testbed)
    return testbed


@pytest.fixture(scope="session")
def uml() -> UmlTestbed:
    kernel = uml_kernel.find()
    if kernel is None:
        pytest.skip("the virtual-time kernel has not been built: `tcpf-lab kernel build`")
    return UmlTestbed(kernel)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return a directory that all workers of the session share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture(scope="session")
def guest_run(uml: UmlTestbed, shared: Path) -> Callable[..., RunFiles]:
    """Return a function that makes a run in a guest, once in a session; its files are only read."""

    def made(
        experiment: Experiment, *settings: str, bed: UmlTestbed = uml, **only: str
    ) -> RunFiles:
        run = expand(apply_overrides(experiment, settings), only)[0]
        parts = f"{dump(run.experiment)}{run.id}{bed.kernel.key}{bed.memory_mb}"
        results = shared / "guest-runs" / hashlib.sha256(parts.encode()).hexdigest()[:16]
        results.mkdir(parents=True, exist_ok=True)
        done = ExperimentFiles(results, experiment.name, bed.name).run(run.id)
        with locked(results):
            return done if done.root.exists() else make_run(results, bed, run)

    return made


@pytest.fixture
def lab(
    fake: FakeTestbed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs ``tcpf-lab`` and gives (exit status, stdout, stderr)."""
    from tcpf_lab.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tcpf-lab", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return int(ended.value.code or 0), said.out, said.err

    return call


@pytest.fixture
def spec(recorded: Path) -> Path:
    """Return the experiment of the recorded run."""
    return recorded / "experiment.yaml"


@pytest.fixture
def quick(
    lab: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Return ``lab`` whose runs end in tables: figures and a PDF take seconds."""
    from tcpf_lab.run import reporting

    monkeypatch.setitem(reporting.report.__kwdefaults__, "formats", ("md", "table"))
    return lab
