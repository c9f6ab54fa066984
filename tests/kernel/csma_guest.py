"""Send over a wire of type csma inside a guest; started there by `test_csma`.

``python csma_guest.py REQUEST RESULT``: REQUEST is a JSON list of ``{"stations", "propagation",
"payload", "count"}``, with which one station sends so many datagrams, or ``"seconds"`` in place of
``"count"``, with which all send as fast as they can, each to the next one. RESULT gets for each
when the first and the last datagram arrived (one station alone), or how many datagrams each
station was given and what ``ip -s -d`` showed of all at both ends of those seconds; what it shows
when all is over, and the shortest and the longest time since the wire was made (all ns).
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
SILENT = "sysctl -w net.ipv6.conf.default.disable_ipv6=1"  # nobody but us is to send
MOST = 10
#: The first station is here, each other one in a namespace of its own.
NAMESPACES = ("", *(f"peer{number}" for number in range(1, MOST)))
MAKE = "ip link add c0 address 02:00:00:00:00:01 type csma seed 1 propagation {propagation}ns"
JOIN = (
    "ip link add link c0 name c{number} address 02:00:00:00:00:{own:02x} type csma",
    "ip link set c{number} netns {namespace}",
)
EACH = (
    "ip{n} addr add 10.8.0.{own}/24 dev c{number}",
    "ip{n} link set c{number} up",
    "ip{n} neigh add 10.8.0.{next} lladdr 02:00:00:00:00:{next:02x} dev c{number} nud permanent",
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


def statistics(stations):
    found = []
    for number, namespace in enumerate(NAMESPACES[:stations]):
        inside = f"ip netns exec {namespace} " if namespace else ""
        (link,) = json.loads(run(f"{inside}ip -s -d -j link show dev c{number}"))
        found.append(link["linkinfo"]["info_xstats"] | link["stats64"])
    return found


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


def saturate(sockets, payload, seconds):
    stop = threading.Event()
    given = [0] * len(sockets)

    def send(number):
        while not stop.is_set():
            sockets[number].sendto(payload, (f"10.8.0.{(number + 1) % len(sockets) + 1}", PORT))
            given[number] += 1

    work = [threading.Thread(target=send, args=(number,)) for number in range(len(sockets))]
    for thread in work:
        thread.start()
    time.sleep(1)
    window = [statistics(len(sockets))]
    time.sleep(seconds)
    window.append(statistics(len(sockets)))
    stop.set()
    for thread in work:
        thread.join()
    time.sleep(SILENCE)
    return {"given": given, "window": window}


def carry_out(request):
    stations = request["stations"]
    before = time.monotonic_ns()
    run(MAKE.format(**request))
    after = time.monotonic_ns()
    for number, namespace in enumerate(NAMESPACES[:stations]):
        names = {"number": number, "own": number + 1, "next": (number + 1) % stations + 1}
        n = f" -n {namespace}" * bool(namespace)
        for command in (*(JOIN if number else ()), *EACH):
            run(command.format(**names, namespace=namespace, n=n))
    sockets = [make_socket(name, number + 1) for number, name in enumerate(NAMESPACES[:stations])]
    time.sleep(SILENCE)  # a worker switches time stamps on
    payload = bytes(request["payload"])
    if "count" in request:
        for _ in range(request["count"]):
            sockets[0].sendto(payload, ("10.8.0.2", PORT))
        found = arrivals(sockets[1])
        result = {"first": found[0], "last": found[-1], "arrived": len(found)}
    else:
        result = saturate(sockets, payload, request["seconds"])
    for own in sockets:
        own.close()
    shortest = time.monotonic_ns() - after
    result["stations"] = statistics(stations)
    result["elapsed"] = [shortest, time.monotonic_ns() - before]
    run("ip link del c0")
    for number in range(1, stations):
        run(f"ip -n {NAMESPACES[number]} link del c{number}")
    return result


def main(request, result):
    run(SILENT)
    for namespace in NAMESPACES[1:]:
        run(f"ip netns add {namespace}")
        run(f"ip netns exec {namespace} {SILENT}")
    requests = json.loads(Path(request).read_text())
    Path(result).write_text(json.dumps([carry_out(each) for each in requests]))


if __name__ == "__main__":
    main(*sys.argv[1:])
