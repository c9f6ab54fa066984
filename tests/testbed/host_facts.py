"""What an agent says of a host on which nothing is wrong."""

from __future__ import annotations

import copy
import platform
from typing import Any

from tcpf_lab.testbed.inventory import Inventory

TOOLS = ["ip", "tc", "ethtool", "tcpdump", "iperf3", "stdbuf", "gcc", "make", "ping"]
MODULES = ["sch_tbf", "sch_netem", "sch_red", "sch_ingress", "cls_matchall", "act_mirred"]
OFFLOADS = ("tcp-segmentation-offload", "generic-receive-offload")


def link(name: str, **more: Any) -> dict[str, Any]:
    return {"ifname": name, "mtu": 1500, "min_mtu": 68, "max_mtu": 9000, **more}


def facts(inventory: Inventory, name: str) -> dict[str, Any]:
    """Give what an agent says of a host on which nothing is wrong."""
    entry = inventory.hosts[name]
    data = list(entry.interfaces.values())
    features = {feature: {"on": True, "fixed": False} for feature in OFFLOADS}
    return {
        "uname": {
            "release": "6.12.9-amd64",
            "version": "#1 SMP Debian 6.12.9-1",
            "machine": platform.machine(),
        },
        "os": {"ID": "debian"},
        "python": "3.13.1",
        "capabilities": "000001ffffffffff",
        "memory": {"MemAvailable": 2 * 10**9},
        "disk": {"path": "/var/lib", "free": 10**10},
        "tools": {tool: {"path": f"/usr/sbin/{tool}", "version": tool} for tool in TOOLS},
        "links": [link("lo"), link(entry.control), *(link(nic) for nic in data)],
        "addresses": [{"ifname": entry.control, "addr_info": [{"local": inventory.address(name)}]}],
        "routes": [],
        "control": {
            "client": "192.0.2.1",
            "server": inventory.address(name),
            "device": entry.control,
        },
        "drivers": {nic: {"NetworkManager": "unmanaged"} for nic in data},
        "offloads": {nic: copy.deepcopy(features) for nic in data},
        "modules_here": dict.fromkeys(MODULES, "available"),
        "modules": ["veth"],
        "modules_directory": True,
        "headers": "/lib/modules/6.12.9-amd64/build",
        "sig_enforce": False,
        "lockdown": "none",
        "clock": {"resolution_ns": 1, "source": "tsc", "hz": 250},
        "unfinished": [],
    }
