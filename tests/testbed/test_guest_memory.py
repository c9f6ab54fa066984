"""The files that hold guests' memory."""

import os

import pytest

from tcpf_lab.testbed.uml import memory


@pytest.fixture(autouse=True)
def nothing_kept():
    memory._leave_to_parent()
    yield
    memory._leave_to_parent()


def use(directory, empty=False):
    """Touch a page as a guest does, and return what was there."""
    with memory.memory_file(directory, empty) as given:
        before = os.pread(given.file.fileno(), 1, 0)
        os.pwrite(given.file.fileno(), b"x", 0)
        return before


def test_next_guest_gets_the_same_memory(tmp_path):
    assert [use(tmp_path) for _ in range(3)] == [b"", b"x", b"x"]


def test_guests_at_the_same_time_get_different_memory(tmp_path):
    use(tmp_path)
    with memory.memory_file(tmp_path) as one, memory.memory_file(tmp_path) as other:
        assert not os.path.sameopenfile(one.file.fileno(), other.file.fileno())


def test_kept_memory_is_room_for_the_next_guest(tmp_path):
    with memory.memory_file(tmp_path) as given:
        os.pwrite(given.file.fileno(), bytes(2**20), 0)
        assert memory.kept_bytes(tmp_path) == 0
    assert memory.kept_bytes(tmp_path) >= 2**20


def test_a_guest_that_must_not_see_old_contents_gets_empty_memory(tmp_path):
    use(tmp_path)
    assert use(tmp_path, empty=True) == b""


def test_memory_of_many_guests_is_put_into_huge_pages(tmp_path):
    def huge():
        with memory.memory_file(tmp_path) as given:
            return "UML_MEMORY_HUGE" in given.environment

    assert [huge() for _ in range(6)] == [False] * memory.HUGE_AFTER + [True] * 2


def test_memory_of_a_guest_that_failed_is_given_to_none(tmp_path):
    use(tmp_path)
    with pytest.raises(RuntimeError), memory.memory_file(tmp_path):
        raise RuntimeError
    assert use(tmp_path) == b""


def test_large_memory_is_given_back_to_the_host(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "KEPT_BYTES", 0)
    assert [use(tmp_path) for _ in range(2)] == [b"", b""]


def test_memory_is_of_the_directory_asked_for(tmp_path):
    use(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    assert use(other) == b""


def test_a_forked_process_does_not_share_its_parents_memory(tmp_path):
    use(tmp_path)
    child = os.fork()
    if not child:
        os._exit(use(tmp_path) != b"")
    assert os.waitpid(child, 0)[1] == 0
