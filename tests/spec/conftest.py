from __future__ import annotations

from pathlib import Path

import pytest

from tcpf_lab.spec.load import load
from tcpf_lab.spec.model import Experiment

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def config_a() -> Experiment:
    return load(CHECKOUT / "experiments" / "configA.yaml")
