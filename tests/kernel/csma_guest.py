"""Send over a wire of type csma inside a guest; started there by `test_csma`.

``python csma_guest.py REQUEST RESULT``: REQUEST is a JSON list of ``{"payload", "count"}``, with
which one station sends so many datagrams, or ``{"payload", "seconds"}``, with which both send as
fast as they can. RESULT gets for each when the first and the last datagram arrived (one station
alone), what ``ip -s -d`` shows of either station, and the shortest and the longest
time since the wire was made (all ns).
"""

import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
CLONE_NEWNET = 0x40000000
#: With no packet for so long, none is under way any more, s.
SILENCE = 2.0
PORT = 9000
STATIONS = (("c0", 1, 2, ""), ("c1", 2, 1, "peer"))
COMMANDS = (
    "ip link add c0 address 02:00:00:00:00:01 type csma seed 1",
    "ip link add link c0 name c1 address 02:00:00:00:00:02 type csma",
    "ip link set c1 netns peer",
)
EACH = (
    "ip{n} addr add 10.8.0.{own}/24 dev {device}",
    "ip{n} link set {device} up",
    "ip{n} neigh add 10.8.0.{other} lladdr 02:00:00:00:00:0{other} dev {device} nud permanent",
)


def run(command):
    return subprocess.run(command.split(), check=True, capture_output=True, text=True).stdout


def make_socket(namespace, own):
    """Make a bound socket in a namespace; only this thread goes there, and comes back."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}" if namespace else "/proc/self/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.setns(there, CLONE_NEWNET) == 0
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    assert libc.setns(here, CLONE_NEWNET) == 0
    made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    made.bind((f"10.8.0.{own}", PORT))
    return made


def statistics(device, namespace):
    inside = f"ip netns exec {namespace} " if namespace else ""
    (link,) = json.loads(run(f"{inside}ip -s -d -j link show dev {device}"))
    return link["linkinfo"]["info_xstats"] | link["stats64"]


def arrivals(receiver):
    """Return the times at which datagrams have arrived."""
    receiver.settimeout(SILENCE)
    found = []
    with contextlib.suppress(TimeoutError):
        while True:
            _, ancillary, _, _ = receiver.recvmsg(2048, 128)
            seconds, ns = struct.unpack("qq", ancillary[0][2])
            found.append(seconds * 10**9 + ns)
    return found


def both(sockets, payload, seconds):
    end = time.monotonic() + seconds

    def send(own, address):
        while time.monotonic() < end:
            own.sendto(payload, (address, PORT))

    work = [
        threading.Thread(target=send, args=(own, f"10.8.0.{other}"))
        for own, (_, _, other, _) in zip(sockets, STATIONS, strict=True)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    time.sleep(SILENCE)


def carry_out(request):
    before = time.monotonic_ns()
    run(COMMANDS[0])
    after = time.monotonic_ns()
    for command in COMMANDS[1:]:
        run(command)
    for device, own, other, name in STATIONS:
        for command in EACH:
            run(command.format(device=device, own=own, other=other, n=f" -n {name}" * bool(name)))
    sockets = [make_socket(namespace, own) for _, own, _, namespace in STATIONS]
    time.sleep(SILENCE)  # a worker switches time stamps on
    result = {}
    payload = bytes(request["payload"])
    if "count" in request:
        for _ in range(request["count"]):
            sockets[0].sendto(payload, ("10.8.0.2", PORT))
        found = arrivals(sockets[1])
        result = {"first": found[0], "last": found[-1], "arrived": len(found)}
    else:
        both(sockets, payload, request["seconds"])
    for own in sockets:
        own.close()
    shortest = time.monotonic_ns() - after
    result["stations"] = [statistics(device, name) for device, _, _, name in STATIONS]
    result["elapsed"] = [shortest, time.monotonic_ns() - before]
    run("ip link del c0")
    run("ip -n peer link del c1")
    return result


def main(request, result):
    run("ip netns add peer")
    for inside in ("", "ip netns exec peer "):  # nobody but us is to send
        run(f"{inside}sysctl -w net.ipv6.conf.default.disable_ipv6=1")
    requests = json.loads(Path(request).read_text())
    Path(result).write_text(json.dumps([carry_out(each) for each in requests]))


if __name__ == "__main__":
    main(*sys.argv[1:])
