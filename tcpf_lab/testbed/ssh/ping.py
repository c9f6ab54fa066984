"""ICMP echo without fragmentation: run on a host by its own Python, where ``ping`` may be missing.

``python3 host_ping.py ADDRESS BYTES PACKETS`` sends IPv4 packets of so many bytes, prints the
shortest round trip in seconds, and ends with status 1 if nothing came back.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time

REPLY_S = 2.0
_HEADERS = 28
_ECHO, _ECHO_REPLY = 8, 0
_IP_MTU_DISCOVER, _DO = 10, 2


def checksum(data: bytes) -> int:
    """Give the Internet checksum of an even number of bytes (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo(identity: int, number: int, size: int) -> bytes:
    """Make an echo request that is an IPv4 packet of ``size`` bytes."""
    length = max(0, size - _HEADERS)
    body = struct.pack("!HH", identity, number) + bytes(length + length % 2)
    head = struct.pack("!BBH", _ECHO, 0, 0)
    check = checksum(head + body)
    return (struct.pack("!BBH", _ECHO, 0, check) + body)[: length + 8]


def ping(address: str, size: int, packets: int) -> float | None:
    """Give the shortest round trip, s; None if nothing came back.

    Raises
    ------
    OSError
        If this process may not send ICMP.
    """
    best = None
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as channel:
        channel.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _DO)
        for number in range(packets):
            began = time.monotonic()
            identity = os.getpid() & 0xFFFF
            try:
                channel.sendto(echo(identity, number, size), (address, 0))
            except OSError:  # too large, or nobody has the address
                continue
            if _answered(channel, (address, identity, number), began + REPLY_S):
                taken = time.monotonic() - began
                best = taken if best is None else min(best, taken)
    return best


def _answered(channel: socket.socket, expected: tuple[str, int, int], until: float) -> bool:
    while (left := until - time.monotonic()) > 0:
        channel.settimeout(left)
        try:
            data, (source, _) = channel.recvfrom(65536)
        except OSError:  # in time nothing, or an error that ICMP has told
            continue
        start = 4 * (data[0] & 15)
        kind, _, _, identity, number = struct.unpack_from("!BBHHH", data, start)
        if kind == _ECHO_REPLY and (source, identity, number) == expected:
            return True
    return False


def main() -> None:
    """Ping as the command line says."""
    address, size, packets = sys.argv[1:]
    found = ping(address, int(size), int(packets))
    if found is None:
        sys.exit(1)
    sys.stdout.write(f"{found:.6f}\n")


if __name__ == "__main__":
    main()
