"""What several test modules need: a recorded run, a fake testbed, the built kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tcpf_lab.spec.load import load
from tcpf_lab.spec.model import Experiment
from tcpf_lab.testbed import registry, uml_kernel
from tcpf_lab.testbed.fake import FakeTestbed
from tcpf_lab.testbed.uml import UmlTestbed

GOLDEN = Path(__file__).parent / "golden"
DATA = Path(__file__).parent / "data"
RECORDED = DATA / "recorded-run"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files anew; review the diff"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that holds a text to ``tests/golden/NAME`` (or writes it anew)."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def recorded() -> Path:
    """Return a run of ``experiment.yaml`` as the uml testbed left it."""
    return RECORDED


@pytest.fixture
def recorded_experiment() -> Experiment:
    return load(RECORDED / "experiment.yaml")


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
