"""Guests for the tests of this directory, booted once; and the long tests, which are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from guest_hosts import Hosts, own_cache, silent

from tcpf_lab.testbed.vm import guests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The sweep of kills takes an hour: what takes minutes has failed before it begins.
    items.sort(key=lambda item: item.path.name == "test_clean_up.py")


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Return the hosts of guests of the tests' own; the user's are left alone."""
    cache = own_cache(tmp_path_factory.mktemp("vm"))
    guests.up(guests.Request(), silent, cache)
    try:
        found = Hosts(cache)
        yield found
        found.close()
    finally:
        guests.down(silent, cache)
