"""Files to and from hosts, with the programs of this machine standing for the host's."""

from __future__ import annotations

import io
import tarfile

import pytest
from fake_agent import FakeHost

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.ssh import files as ssh_files
from tcpf_lab.testbed.ssh.hosts import run


@pytest.fixture
def host():
    return FakeHost("alpha")


def test_file_arrives_with_its_mode_and_leaves_nothing_beside_it(host, tmp_path):
    path = tmp_path / "new/directory/file"
    assert ssh_files.put(host, b"\0\xff" * 50_000, str(path), "0750")
    assert path.read_bytes() == b"\0\xff" * 50_000
    assert path.stat().st_mode & 0o777 == 0o750
    assert [each.name for each in path.parent.iterdir()] == ["file"]


def test_file_that_is_there_is_not_sent_again(host, tmp_path):
    path = str(tmp_path / "file")
    assert [ssh_files.put(host, content, path) for content in (b"1", b"1", b"2")] == [
        True,
        False,
        True,
    ]


def damaging(host, monkeypatch):
    """Let every program on the host read something else than was sent to it."""

    def start(argv, silence=None, begin=host.start):
        process = begin(argv, silence)
        write = process.write
        process.write = lambda data: write(data.replace(b"content", b"CONTENT"))
        return process

    monkeypatch.setattr(host, "start", start)


def test_file_damaged_on_its_way_is_not_kept(host, tmp_path, monkeypatch):
    damaging(host, monkeypatch)
    path = tmp_path / "file"
    path.write_bytes(b"as it was")
    with pytest.raises(TestbedError, match="damaged on its way"):
        ssh_files.put(host, b"the content", str(path))
    assert path.read_bytes() == b"as it was"
    with pytest.raises(TestbedError, match="damaged on its way"):
        ssh_files.put_tree(host, {"a": b"the content"}, str(tmp_path / "tree"))
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_place_that_cannot_be_written_is_named(host, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TestbedError, match="cannot be written") as caught:
        ssh_files.put(host, b"x", str(tmp_path / "file/below"))
    assert caught.value.where == "host alpha"


def test_tree_replaces_another_of_its_name(host, tmp_path):
    place = tmp_path / "tree"
    ssh_files.put_tree(host, {"a": b"1", "b/c": b"2"}, str(place))
    ssh_files.put_tree(host, {"a": b"3"}, str(place))
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {"a": b"3"}


def test_archive_depends_on_names_and_contents_alone():
    files = {"b": b"2", "a/c": b"1"}
    assert ssh_files.pack(files) == ssh_files.pack(dict(sorted(files.items())))
    assert ssh_files.unpack(ssh_files.pack(files)) == files


def test_tree_is_read_without_what_a_build_leaves(tmp_path):
    for name in ("sched/a.c", "sched/a.o", "tc/b.c", "other/c.c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    assert ssh_files.tree(tmp_path, ("sched", "tc"), (".o",)) == {
        "sched/a.c": b"sched/a.c",
        "tc/b.c": b"tc/b.c",
    }


def test_all_files_are_fetched(host, tmp_path):
    source = tmp_path / "there"
    for name in ("stats/a b.txt", "log/x", "pcap/empty"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name if "empty" not in name else "")
    assert ssh_files.fetch(host, str(source), tmp_path / "here") == 3
    assert (tmp_path / "here/stats/a b.txt").read_text() == "stats/a b.txt"
    assert (tmp_path / "here/pcap/empty").read_bytes() == b""
    (tmp_path / "nothing").mkdir()
    assert ssh_files.fetch(host, str(tmp_path / "nothing"), tmp_path / "here") == 0


def test_directory_that_is_not_there_is_named(host, tmp_path):
    with pytest.raises(TestbedError, match="cannot be read"):
        ssh_files.fetch(host, str(tmp_path / "gone"), tmp_path)


def test_file_that_changes_while_it_is_fetched_is_an_error(host, tmp_path, monkeypatch):
    source = tmp_path / "there"
    source.mkdir()
    (source / "log").write_text("before")

    def start(argv, silence=None, begin=host.start):
        if argv[0] == "tar":
            (source / "log").write_text("after")
        return begin(argv, silence)

    monkeypatch.setattr(host, "start", start)
    with pytest.raises(TestbedError, match="files missing or changed in transfer: log"):
        ssh_files.fetch(host, str(source), tmp_path / "here")


def test_host_cannot_write_outside_of_the_run(host, tmp_path, monkeypatch):
    evil = tmp_path / "evil.tar"
    with tarfile.open(evil, "w") as archive:
        info = tarfile.TarInfo("../outside")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    (tmp_path / "there").mkdir()
    (tmp_path / "there/harmless").touch()

    def start(argv, silence=None, begin=host.start):
        return begin(("cat", str(evil)) if argv[0] == "tar" else argv, silence)

    monkeypatch.setattr(host, "start", start)
    with pytest.raises(TestbedError, match="unexpected file name"):
        ssh_files.fetch(host, str(tmp_path / "there"), tmp_path / "run")
    assert not (tmp_path / "outside").exists()


def test_status_and_words_of_a_program_are_told(host):
    reply = run(host, ("sh", "-c", "cat; echo worse >&2; exit 7"), b"said")
    assert (reply.status, reply.output, reply.errors.strip()) == (7, b"said", "worse")
