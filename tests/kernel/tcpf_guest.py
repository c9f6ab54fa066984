"""Traffic through the marker inside a guest; started there by ``test_tcpf_guest.py``.

S - R0 - D, the marker on both directions of R0's device towards S, a narrow queue behind it.
Captures are written on both ends, and what the marker has counted, into the current directory.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

BYTES, CONNECTIONS = 300_000, 6
SET_UP = """
ip netns add S
ip netns add D
ip link add v0 type veth peer name s0 netns S
ip link add v1 type veth peer name d0 netns D
ip addr add 10.0.1.1/24 dev v0
ip addr add 10.0.2.1/24 dev v1
ip addr add fd01::1/64 dev v0 nodad
ip addr add fd02::1/64 dev v1 nodad
ip -n S addr add 10.0.1.2/24 dev s0
ip -n S addr add fd01::2/64 dev s0 nodad
ip -n D addr add 10.0.2.2/24 dev d0
ip -n D addr add fd02::2/64 dev d0 nodad
ip link set v0 up
ip link set v1 up
ip -n S link set s0 up
ip -n D link set d0 up
ip -n S route add default via 10.0.1.1
ip -n D route add default via 10.0.2.1
ip -n S route add default via fd01::1
ip -n D route add default via fd02::1
ethtool -K v0 tso off gso off gro off tx off rx off
ethtool -K v1 tso off gso off gro off tx off rx off
ip netns exec S ethtool -K s0 tso off gso off gro off tx off rx off
ip netns exec D ethtool -K d0 tso off gso off gro off tx off rx off
tc qdisc add dev v1 root tbf rate 4mbit burst 4000 limit 30000
tc qdisc add dev v0 clsact
tc actions add action tcpf interval 400ms tokens 100000 index 1
tc filter add dev v0 ingress matchall action tcpf index 1
tc filter add dev v0 egress matchall action tcpf index 1
"""
FORWARDING = ("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding")
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
ADDRESSES = {socket.AF_INET: "10.0.2.2", socket.AF_INET6: "fd02::2"}


def enter(name):
    """Put the calling thread, and what it starts, into a namespace."""
    namespace = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"cannot enter {name}")
    os.close(namespace)


def sink(connection):
    with connection:
        while connection.recv(1 << 20):
            pass


def listen(family, ready):
    enter("D")
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((ADDRESSES[family], 9000))
    listener.listen(64)
    ready.set()
    while True:
        threading.Thread(target=sink, args=(listener.accept()[0],), daemon=True).start()


def send(family):
    enter("S")
    with socket.create_connection((ADDRESSES[family], 9000)) as connection:
        connection.sendall(bytes(BYTES))


def other_packets():
    """Send UDP, whole and in fragments, with ECN's bits set."""
    enter("S")
    for family, level, option in (
        (socket.AF_INET, socket.IPPROTO_IP, socket.IP_TOS),
        (socket.AF_INET6, socket.IPPROTO_IPV6, socket.IPV6_TCLASS),
    ):
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(level, option, 46 << 2 | 1)
            for size in (100, 4000):
                sender.sendto(bytes(size), (ADDRESSES[family], 9))


def together(jobs):
    """Carry out jobs, each in a thread of its own."""
    threads = [threading.Thread(target=job, args=words) for job, *words in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def capture(node, device):
    options = f"-Z root -n -s 0 -U -B 16384 -i {device} -w pcap/{node}.pcap".split()
    command = ["ip", "netns", "exec", node, "tcpdump", *options]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def main():
    for path in FORWARDING:
        Path(path).write_text("1", encoding="ascii")
    for command in SET_UP.strip().splitlines():
        subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)
    captures = [capture("S", "s0"), capture("D", "d0")]
    time.sleep(1)
    for family in ADDRESSES:
        ready = threading.Event()
        threading.Thread(target=listen, args=(family, ready), daemon=True).start()
        ready.wait()
    together([(send, family) for family in ADDRESSES for _ in range(CONNECTIONS)])
    together([(other_packets,)])
    time.sleep(2)
    for running in captures:
        running.terminate()
        running.wait()
    with Path("stats/action.json").open("w", encoding="utf-8") as file:
        shown = ["tc", "-s", "-j", "actions", "list", "action", "tcpf"]
        subprocess.run(shown, check=True, stdout=file)
    os._exit(0)  # the listeners never end


if __name__ == "__main__":
    main()
