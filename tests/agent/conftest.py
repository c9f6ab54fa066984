"""A private host, as it is before anything has been done to it."""

from __future__ import annotations

import pytest
from private_host import Host, Talk, needs_root


@pytest.fixture(scope="module")
def host():
    needs_root()
    host = Host()
    host.before = host.snapshot()
    yield host
    host.close()


@pytest.fixture
def talk(host):
    """Return a conversation that has begun; afterwards the host must be what it was."""
    talk = Talk(host)
    talk.ask("begin", token="run-1", owner=True, plugins=None)
    yield talk
    talk.close()
    host.settled()
    host.assert_same()
