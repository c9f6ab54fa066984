"""Linear algebra of these tests runs as that of a calibration does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tcpf_lab.calibration.emulator import one_thread


@pytest.fixture(scope="package", autouse=True)
def single() -> Iterator[None]:
    with one_thread():
        yield
