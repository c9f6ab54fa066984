"""What this host is and has, without changing anything."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from tcpf_lab.testbed.ssh.agent import journal, modules, network, session, system
from tcpf_lab.testbed.ssh.agent.system import AgentError

_CLASS = Path("/sys/class/net")
_FEATURE = re.compile(r"^\t?([\w-]+): (on|off)(.*)$", re.M)


def gather_network() -> dict[str, Any]:
    """Gather interfaces, addresses, routes and rules, and who takes care of them."""
    shown = network.shown(_report)
    names = [link["ifname"] for link in shown["links"] if "ifname" in link]
    managers = {"NetworkManager": _network_manager(), "systemd-networkd": _networkd()}
    return {
        **shown,
        "rules": [
            *_report(["ip", "-j", "rule", "show"]),
            *_report(["ip", "-j", "-6", "rule", "show"]),
        ],
        "drivers": {name: {**_device(name), **_managed(name, managers)} for name in names},
        "offloads": {name: _offloads(name) for name in names},
        "networkmanager": managers["NetworkManager"],
        "networkd": managers["systemd-networkd"],
    }


def _report(argv: list[str]) -> list[dict[str, Any]]:
    try:
        return system.report(argv)
    except (AgentError, ValueError):
        return []


def _device(name: str) -> dict[str, Any]:
    root = _CLASS / name
    speed, carrier = _text(root / "speed"), _text(root / "carrier")  # none without a link
    return {
        "driver": _target(root / "device" / "driver"),
        "bus": _target(root / "device" / "subsystem"),
        "speed": int(speed) if speed and speed.lstrip("-").isdigit() else None,
        "duplex": _text(root / "duplex"),
        "carrier": int(carrier) if carrier else None,
        "physical": (root / "device").exists(),
        "wireless": (root / "wireless").exists() or (root / "phy80211").exists(),
    }


def _offloads(name: str) -> dict[str, dict[str, bool]]:
    output = _output(["ethtool", "-k", name]) or ""
    return {
        match[1]: {"on": match[2] == "on", "fixed": "[fixed]" in match[3]}
        for match in _FEATURE.finditer(output)
    }


def _network_manager() -> dict[str, str] | None:
    output = _output(["nmcli", "-t", "-f", "DEVICE,STATE", "device"])
    if output is None:
        return None
    pairs = (line.rpartition(":") for line in output.splitlines())
    return {name: _word(state) for name, _, state in pairs if name}


def _networkd() -> dict[str, str] | None:
    output = _output(["networkctl", "list", "--no-legend", "--no-pager"])
    if output is None:
        return None
    rows = (line.split() for line in output.splitlines())
    return {row[1]: _word(row[4]) for row in rows if len(row) >= 5}


def _word(state: str) -> str:
    """Read a state; a service that does not run reports ``n/a``."""
    return "unmanaged" if state.startswith(("unmanaged", "n/a")) else "managed"


def _managed(name: str, managers: dict[str, dict[str, str] | None]) -> dict[str, str]:
    return {
        service: states[name]
        for service, states in managers.items()
        if states is not None and name in states
    }


def _output(argv: list[str]) -> str | None:
    """Return a program's output, None if it is missing or fails."""
    try:
        return system.checked(argv).output
    except AgentError:
        return None


def _target(link: Path) -> str | None:
    try:
        return link.readlink().name
    except OSError:
        return None


#: Program -> the option that prints its version.
_TOOLS = {
    "ip": "-V", "tc": "-V", "ethtool": "--version", "tcpdump": "--version", "iperf3": "--version",
    "stdbuf": "--version", "gcc": "--version", "make": "--version", "ping": "-V",
    "modprobe": "--version", "insmod": "--version", "rmmod": "--version", "dkms": "--version",
    "nmcli": "--version", "ss": "-V", "sysctl": "--version", "nsenter": "--version",
}  # fmt: skip
#: Modules that a plan or the project uses.
_MODULES = (
    *("sch_tbf", "sch_netem", "sch_red", "sch_fifo", "sch_ingress", "sch_htb", "sch_fq"),
    *("sch_fq_codel", "sch_codel", "sch_pie", "sch_fq_pie", "sch_prio", "sch_cake", "sch_choke"),
    *("sch_sfq", "sch_hhf", "sch_sfb", "cls_matchall", "act_gact", "act_mirred", "veth"),
    *("tcp_cubic", "tcp_bbr", "sch_rio", "sch_frio", "sch_delivery"),
    *("act_tcpf", "act_token", "csma", "8021q"),
)


def gather(state: Path) -> dict[str, Any]:
    """Gather all facts; unknown ones are None or missing."""
    kernel = os.uname()
    return {
        "uname": {
            "system": kernel.sysname,
            "release": kernel.release,
            "version": kernel.version,
            "machine": kernel.machine,
        },
        "boot_id": journal.boot_id(),
        "hostname": socket.gethostname(),
        "os": _release(),
        "python": platform.python_version(),
        "uid": os.geteuid(),
        "capabilities": _capabilities(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory": _memory(),
        "disk": _disk(state),
        "tools": {name: _tool(name, option) for name, option in _TOOLS.items()},
        **gather_network(),
        "control": _control(),
        **_modules(kernel.release),
        "clock": _clock(kernel.release),
        "virtualization": _first_line(["systemd-detect-virt"]),
        "selinux": _text("/sys/fs/selinux/enforce"),
        "unfinished": [{"run": r["token"], **r} for r in journal.unfinished(state)],
    }


def _release() -> dict[str, str]:
    lines = (_text("/etc/os-release") or "").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key: value.strip("\"'") for key, _, value in pairs}


def _capabilities() -> str | None:
    found = re.search(r"^CapEff:\s*(\w+)", _text("/proc/self/status") or "", re.M)
    return found[1] if found else None


def _memory() -> dict[str, int]:
    pattern = re.compile(r"^(MemTotal|MemAvailable):\s*(\d+) kB", re.M)
    return {m[1]: int(m[2]) * 1024 for m in pattern.finditer(_text("/proc/meminfo") or "")}


def _disk(state: Path) -> dict[str, Any]:
    place = next(path for path in (state, *state.parents) if path.is_dir())
    return {"path": str(state), "free": shutil.disk_usage(place).free}


def _tool(name: str, option: str) -> dict[str, str | None] | None:
    try:
        path = system.resolve([name])[0]
    except AgentError:
        return None
    return {"path": path, "version": _first_line([path, option])}


def _first_line(argv: list[str]) -> str | None:
    try:
        result = subprocess.run(
            system.resolve(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=10,
            check=False,
        )
    except (AgentError, OSError, subprocess.SubprocessError):
        return None
    lines = result.stdout.decode(errors="replace").split("\n")
    return next((line.strip() for line in lines if line.strip()), None)


def _control() -> dict[str, str | None]:
    """Return the two ends of the controller's connection, and the interface of the route back."""
    client, server = session.connection() or (None, None)
    back = session.way_to(client) if client else None
    return {"client": client, "server": server, "device": back}


def _modules(release: str) -> dict[str, Any]:
    directory = Path("/lib/modules") / release
    listed = {kind: _text(str(directory / f"modules.{kind}")) for kind in ("builtin", "dep")}
    names = {kind: _names(text or "") for kind, text in listed.items()}
    loaded = sorted(modules.loaded())
    build = directory / "build"
    return {
        "modules": loaded,
        "modules_directory": directory.is_dir(),
        "modules_here": {name: _state(name, loaded, names) for name in _MODULES},
        "headers": str(build) if (build / "Makefile").exists() else None,
        "sig_enforce": _text("/sys/module/module/parameters/sig_enforce") == "Y",
        "lockdown": _lockdown(),
    }


def _names(text: str) -> set[str]:
    """Return the names of the modules in a list of files in ``/lib/modules``."""
    files = (line.split(":")[0].split() for line in text.splitlines())
    return {modules.called(Path(f[0]).name.split(".ko")[0]) for f in files if f}


def _state(name: str, loaded: list[str], names: dict[str, set[str]]) -> str:
    if name in loaded:
        return "loaded"
    if name in names["builtin"] or Path("/sys/module", name).exists():
        return "builtin"
    return "available" if name in names["dep"] else "missing"


def _lockdown() -> str | None:
    found = re.search(r"\[(\w+)\]", _text("/sys/kernel/security/lockdown") or "")
    return found[1] if found else None


def _clock(release: str) -> dict[str, Any]:
    source = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    found = re.search(r"^CONFIG_HZ=(\d+)", _text(f"/boot/config-{release}") or "", re.M)
    return {
        "resolution_ns": round(time.clock_getres(time.CLOCK_MONOTONIC) * 1e9),
        "source": _text(source),
        "hz": int(found[1]) if found else None,
    }


def _text(path: str | Path) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None
