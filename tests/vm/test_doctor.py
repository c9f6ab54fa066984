"""The doctor on hosts with planted faults: all are named at once, each with its cure."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import host_picture
import pytest
from guest_hosts import ROOT, Hosts
from host_picture import STATE

from tcpf_lab.testbed.vm.layout import host_name

pytestmark = pytest.mark.nightly
RESULT = ROOT / "results" / "vm" / "doctor.json"
PATIENCE_S = 600.0
#: Of a busy machine the clocks are known badly, and there is nothing wrong with the hosts.
OF_THE_MACHINE = {"clock"}
#: What cannot be tried while an interface is missing or in use.
FOLLOWS = {"links", *(f"link {ends}" for ends in ("S-R0", "R0-R1", "R1-R2", "R2-D"))}


@dataclass(frozen=True)
class Fault:
    """Something that is made wrong on one host."""

    role: str
    plant: str
    remove: str
    check: str
    detail: str
    cure: str


FAULTS = (
    Fault(
        "S",
        "busybox mount --bind /dev/null /usr/bin/iperf3",
        "busybox umount /usr/bin/iperf3",
        *("programs", "missing: iperf3", "apt-get install iperf3"),
    ),
    Fault(
        "R0",
        "ip link set data1 down; ip link set data1 name uplink",
        "ip link set uplink name data1",
        *("interfaces", "no interface 'data1' for R0-R1", "`ip -br link` on the host"),
    ),
    Fault(
        "R1",
        f"busybox mount -o remount,size=100m {STATE}",
        f"busybox mount -o remount,size=50% {STATE}",
        *("disk", f"MB free in {STATE}", "free disk space"),
    ),
    Fault(
        "R2",
        f"""mkdir -p {STATE}/runs/lost
printf '{{"n":0,"kind":"run","token":"lost","pid":4000000,"started":1,"boot_id":"%s",' \\
    "$(cat /proc/sys/kernel/random/boot_id)" > {STATE}/runs/lost/journal.jsonl
printf '"namespace":%s,"began_ns":1,"owner":true}}\\n' "$(stat -L -c %i /proc/self/ns/net)" \\
    >> {STATE}/runs/lost/journal.jsonl""",
        "true",  # its cure is taken
        *("leftovers", "not undone: lost", "tcpf-lab clean --testbed vm"),
    ),
    Fault(
        "D",
        "ip link add br7 type bridge; ip link set data0 master br7",
        "ip link delete br7; modprobe -r bridge; ! grep -q ^llc /proc/modules || rmmod llc",
        *("interfaces", "data0 is part of br7", "ip link set dev data0 nomaster"),
    ),
)


def doctor(hosts: Hosts, directory: Path) -> tuple[int, list[dict[str, Any]]]:
    process = hosts.lab("doctor", "--testbed", "vm", "--json", directory=directory)
    said = process.communicate(timeout=PATIENCE_S)[0]
    return process.returncode, json.loads(said[said.index("[\n") :])


@pytest.fixture
def faults(hosts: Hosts) -> Iterator[tuple[Fault, ...]]:
    for fault in FAULTS:
        hosts(fault.role, fault.plant)
    yield FAULTS
    for fault in FAULTS:
        hosts(fault.role, fault.remove)


@pytest.fixture
def untouched(hosts: Hosts) -> Iterator[None]:
    """Check that the hosts, with the faults removed, are what they were."""
    before = host_picture.take(hosts)
    yield
    left = host_picture.until_same(hosts, before, 60.0)
    assert not left, "\n".join(left)


def test_five_planted_faults_are_named_at_once(
    hosts: Hosts, untouched: None, faults: tuple[Fault, ...], tmp_path: Path
) -> None:
    began = time.monotonic()
    status, checks = doctor(hosts, tmp_path)
    took = time.monotonic() - began
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps({"took_s": round(took, 1), "checks": checks}, indent=1) + "\n")
    wrong = [check for check in checks if not check["ok"]]
    for fault in faults:
        (found,) = (
            check
            for check in wrong
            if check["name"] == fault.check and host_name(fault.role) in check["detail"]
        )
        assert fault.detail in found["detail"]
        assert fault.cure in found["cure"]
    assert all(check["cure"] for check in wrong)
    others = {check["name"] for check in wrong} - {fault.check for fault in faults}
    assert others <= FOLLOWS | OF_THE_MACHINE
    assert status == 1
    cleaning = hosts.lab("clean", "--testbed", "vm", directory=tmp_path)
    said = cleaning.communicate(timeout=PATIENCE_S)[0]
    assert cleaning.returncode == 0, said
    assert "undone" in said


def test_hosts_without_faults_are_fit(hosts: Hosts, untouched: None, tmp_path: Path) -> None:
    _, checks = doctor(hosts, tmp_path)
    wrong = {check["name"]: check["detail"] for check in checks if not check["ok"]}
    assert wrong.keys() <= OF_THE_MACHINE, wrong
    assert {"link S-R0", "link R0-R1", "link R1-R2", "link R2-D"} <= {
        check["name"] for check in checks
    }
