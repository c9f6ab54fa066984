"""The five hosts of a pair of guests: a shell on each, and what runs of the laboratory need."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.testbed.uml import kernel
from tcpf_lab.testbed.vm import guests, layout
from tcpf_lab.testbed.vm import kernel as vm_kernel
from tcpf_lab.testbed.vm.layout import GUESTS, ROLES, guest_of, host_name

ROOT = Path(__file__).parents[2]
#: A script on an emulated machine has ended after so long, s.
PATIENCE_S = 120.0
_END = "end-of-script"


def silent(_phase: str, _share: float) -> None:
    pass


def own_cache(root: Path) -> Path:
    """Make a cache below ``root`` whose guests are its own; what takes long to get is shared."""
    cache = root / "tcpf-lab" / "vm"
    cache.mkdir(parents=True)
    shared = vm_kernel.cache_directory()
    for name in ("kernels", "programs"):
        (shared / name).mkdir(parents=True, exist_ok=True)
        (cache / name).symlink_to(shared / name)
    for name in ("hosts", kernel.cache_directory().name):
        (shared.parent / name).mkdir(exist_ok=True)
        (cache.parent / name).symlink_to(shared.parent / name)
    return cache


class Shell:
    """A shell on a host, by SSH, that carries out one script after the other."""

    def __init__(self, config: Path, host: str) -> None:
        self._command = ["ssh", "-F", str(config), host, "exec sh"]
        self._host = host
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, script: str, patience: float = PATIENCE_S) -> str:
        """Return what ``script`` prints; a shell that has died is replaced before it is asked."""
        until = time.monotonic() + patience
        while not self._lives():
            assert time.monotonic() < until, f"{self._host} lets nobody in"
        self._write(f"(set -e\n{script}\n) </dev/null 2>&1; s=$?; echo; echo {_END} $s\n")
        status, said = self._read()
        assert status == 0, f"{self._host}: {script!r} ended with status {status}:\n{said}"
        return said

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _lives(self) -> bool:
        """Start a shell unless one answers."""
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
            )
        with suppress(BrokenPipeError):
            self._write(f"echo; echo {_END} 0\n")
            if self._read()[0] == 0:
                return True
        self.close()
        time.sleep(0.2)
        return False

    def _write(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def _read(self) -> tuple[int | None, str]:
        assert self._process is not None
        assert self._process.stdout is not None
        lines = []
        for line in self._process.stdout:
            text = line.decode("utf-8", "replace").rstrip("\n")
            if text.startswith(f"{_END} "):
                return int(text.split()[1]), "\n".join(lines).strip()
            lines.append(text)
        return None, "\n".join(lines)


class Hosts:
    """The hosts of guests that are up.

    Parameters
    ----------
    cache : Path
        Of the guests; in a directory that ``XDG_CACHE_HOME`` may name.
    """

    def __init__(self, cache: Path) -> None:
        self.state = guests.here(cache)
        self.facts = guests.status(cache)
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(cache.parent.parent)}
        self.ports: dict[str, int] = self.facts["ports"]
        self._shells = {
            role: Shell(self.state.ssh_config, layout.host_name(role)) for role in ROLES
        }

    def __call__(self, role: str, script: str) -> str:
        """Run a script on the host of ``role``; return what it prints."""
        return self._shells[role](script)

    def everywhere(self, script: str) -> dict[str, str]:
        """Run a script on all hosts at once."""
        with ThreadPoolExecutor(len(ROLES)) as pool:
            return dict(zip(ROLES, pool.map(lambda role: self(role, script), ROLES), strict=True))

    def armed(self, role: str, script: str) -> subprocess.Popen[bytes]:
        """Give a process that has logged in and runs ``script`` once it reads a line."""
        host = layout.host_name(role)
        command = f"echo armed; read line; {script}"
        process = subprocess.Popen(
            ["ssh", "-F", str(self.state.ssh_config), host, f"sh -c {shlex.quote(command)}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"armed\n"
        return process

    def lab(self, *words: object, directory: Path) -> subprocess.Popen[str]:
        """Start ``tcpf-lab`` in a directory, for these guests and no others."""
        return subprocess.Popen(
            [sys.executable, "-m", "tcpf_lab", *map(str, words)],
            cwd=directory,
            env={**self.environment, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def close(self) -> None:
        for shell in self._shells.values():
            shell.close()


# What must hold of any run on the hosts of the guests, however busy the machine is.

#: Checks of a verdict that only runs against real clocks have.
OF_REAL_CLOCKS = {"clocks_agree", "started_on_time"}
#: Checks that hold on a machine that is short of processor time, too: what was set, and what was
#: lost.  The others may fail there: emulated guests are then late, the queue under test is empty
#: though there are packets, these wait elsewhere, timers expire later than the kernel's rules say,
#: by which retransmissions are told apart, and some come after iperf3 has looked for the last time.
HOLD_ALWAYS = {
    *("offloads_off", "qdisc_in_force", "marker_in_force", "sysctls_in_force", "routes_in_force"),
    *("all_connected", "loss_matches_qdisc"),
}
#: Clocks of one guest are one clock; and the guests were set to whole seconds, s.
SAME_S, SET_S = 0.02, 4.0


def check_whole(files: RunFiles, generator: str = "iperf3") -> dict[str, Any]:
    """Check a run's directory; return its metrics."""
    manifest, metrics = read_json(files.manifest), read_json(files.metrics)
    assert manifest["clock"] == "real"
    assert manifest["expect"]["generator"] == generator
    _check_files(files, manifest)
    if generator == "iperf3":
        _check_reports(files, manifest)
    _check_requests(files)
    _check_clocks(files)
    _check_verdict(metrics)
    return metrics


def failing(metrics: dict[str, Any]) -> set[str]:
    """Name the checks that a run has failed."""
    return {check["name"] for check in metrics["validity"]["checks"] if check["ok"] is False}


def _check_files(files: RunFiles, manifest: dict[str, Any]) -> None:
    wanted = {f"stats/{name}.json" for name in ("epoch", "clock", "lateness", "hosts", "route-S")}
    wanted |= {f"stats/qdisc-{role}.json" for role in ROLES}
    wanted |= {f"stats/{name}-{role}.txt" for name in ("dev", "dev-before") for role in ROLES}
    wanted |= {"log/requests.jsonl", "run.yaml", "plan.txt"}
    assert {name for name in wanted if not (files.root / name).is_file()} == set()
    hosts = read_json(files.stats / "hosts.json")
    assert {name: facts["roles"] for name, facts in hosts.items()} == {
        host_name(role): [role] for role in ROLES
    }


def _check_reports(files: RunFiles, manifest: dict[str, Any]) -> None:
    flows = manifest["flows"]
    assert len(read_json(files.stats / "lateness.json")) >= flows
    for flow in range(flows):
        assert (files.log / f"iperf3-server-{flow}.log").is_file()
        assert read_json(files.stats / f"iperf3-{flow}.json")["end"]["sum_sent"]["bytes"] > 0


def _check_requests(files: RunFiles) -> None:
    """Every request was answered, none refused, and every host was asked to end."""
    requests = [json.loads(line) for line in (files.log / "requests.jsonl").open()]
    assert [request for request in requests if "error" in request] == []
    ended = [request["host"] for request in requests if request["do"] == "end"]
    assert sorted(ended) == sorted(map(host_name, ROLES))


def _check_clocks(files: RunFiles) -> None:
    """The clocks are seen as the guests have them: one ahead, and faster."""
    nodes = read_json(files.stats / "epoch.json")["nodes"]
    assert sorted(nodes) == sorted(ROLES)
    offset = {role: nodes[role]["offset_ns"] / 1e9 for role in ROLES}
    for guest in GUESTS:
        first = guest.roles[0]
        for role in guest.roles:
            known = (nodes[role]["uncertainty_ns"] + nodes[first]["uncertainty_ns"]) / 1e9
            assert abs(offset[role] - offset[first]) < SAME_S + known
    ahead = GUESTS[1].ahead_s - GUESTS[0].ahead_s
    assert abs(offset[GUESTS[1].roles[0]] - offset[GUESTS[0].roles[0]] - ahead) < SET_S
    samples = read_json(files.stats / "clock.json")
    for role, wrong in drifts(files).items():
        span = samples[role][-1]["at_ns"] - samples[role][0]["at_ns"]
        assert abs(wrong) < 1e6 * 2 * nodes[role]["uncertainty_ns"] / span


def drifts(files: RunFiles) -> dict[str, float]:
    """Give by how much each role's clock was seen to be faster than it was set, ppm."""
    nodes = read_json(files.stats / "epoch.json")["nodes"]
    return {role: nodes[role]["drift_ppm"] - guest_of(role).faster_ppm for role in ROLES}


def _check_verdict(metrics: dict[str, Any]) -> None:
    checks = {check["name"]: check for check in metrics["validity"]["checks"]}
    assert set(checks) >= OF_REAL_CLOCKS
    assert checks["loss_matches_qdisc"]["ok"] is True, checks["loss_matches_qdisc"]["detail"]
    assert not failing(metrics) & HOLD_ALWAYS, metrics["validity"]["reasons"]
