"""Carry out tc cases inside a guest; started there by `tests/kernel/tc_cases.py`.

``python tc_guest.py CASES OUTCOMES``: CASES is a JSON list of ``{"id", "commands"}``; for every
command OUTCOMES gets a line of JSON, written before the next one begins, so that a guest that dies
tells in which case.  A command is a program with its words, or one of `WORDS`, which need no
program (or that no program would send).

The guest has a device ``v0``; the other end, ``v1``, is in a namespace of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import shlex
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

#: Of netlink requests that tc would not send.
DEVICE = "v0"
SIZES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q"}
RTM_NEWQDISC, RTM_DELQDISC, RTM_NEWACTION, RTM_DELACTION = 36, 37, 48, 49
NLM_F_REQUEST, NLM_F_ACK, NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 1, 4, 0x100, 0x200, 0x400
NLM_F_ROOT = 0x100
TCA_KIND, TCA_OPTIONS, TCA_ACT_TAB = 1, 2, 1
NLA_F_NESTED = 0x8000
SOL_NETLINK, NETLINK_EXT_ACK = 270, 11
NLMSGERR_ATTR_MSG = 1


class CommandError(Exception):
    """A command has failed; the text is what it says."""


def attribute(kind, payload):
    """Encode one netlink attribute."""
    padding = bytes(-len(payload) % 4)
    return struct.pack("HH", len(payload) + 4, kind) + payload + padding


def attributes(words):
    """Encode ``NUMBER=u32:VALUE ...``; ``hex:`` gives the bytes themselves."""
    encoded = b""
    for word in words:
        number, _, value = word.partition("=")
        kind, _, digits = value.partition(":")
        payload = (
            bytes.fromhex(digits) if kind == "hex" else struct.pack(SIZES[kind], int(digits, 0))
        )
        encoded += attribute(int(number), payload)
    return encoded


#: What a request does -> its type and flags.
QDISC_VERBS = {
    "add": (RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL),
    "change": (RTM_NEWQDISC, 0),
    "del": (RTM_DELQDISC, 0),
}
ACTION_VERBS = {
    "add": (RTM_NEWACTION, NLM_F_CREATE | NLM_F_EXCL),
    "change": (RTM_NEWACTION, NLM_F_CREATE | NLM_F_REPLACE),
    "flush": (RTM_DELACTION, NLM_F_ROOT),
}


def qdisc_request(verb, kind, options):
    """Build a request for the root qdisc of ``v0``."""
    body = struct.pack("BxxxiIII", 0, socket.if_nametoindex(DEVICE), 0, 0xFFFFFFFF, 0)
    if verb != "del":
        body += attribute(TCA_KIND, kind.encode() + b"\0")
        body += attribute(TCA_OPTIONS | NLA_F_NESTED, options)
    return *QDISC_VERBS[verb], body


def action_request(verb, kind, options):
    """Build a request for an action."""
    action = attribute(TCA_KIND, kind.encode() + b"\0")
    if verb != "flush":
        action += attribute(TCA_OPTIONS | NLA_F_NESTED, options)
    table = attribute(TCA_ACT_TAB | NLA_F_NESTED, attribute(1 | NLA_F_NESTED, action))
    return *ACTION_VERBS[verb], struct.pack("Bxxx", 0) + table


def netlink(what, verb, kind, *words):
    """``netlink qdisc|action add|change|del|flush KIND NUMBER=TYPE:VALUE...``."""
    request = {"qdisc": qdisc_request, "action": action_request}[what]
    number, flags, body = request(verb, kind, attributes(words))
    header = struct.pack("IHHII", 16 + len(body), number, flags | NLM_F_REQUEST | NLM_F_ACK, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        kernel.send(header + body)
        reply = kernel.recv(65536)
    _, _, reply_flags, _, _, error, echoed = struct.unpack_from("IHHIIiI", reply)
    if error == 0:
        return
    # Without NLM_F_CAPPED (0x100) the whole request comes back in front of the message.
    at = 20 + (16 if reply_flags & 0x100 else (echoed + 3) & ~3)
    said = ""
    while reply_flags & 0x200 and at + 4 <= len(reply):
        length, kind_of = struct.unpack_from("HH", reply, at)
        if kind_of == NLMSGERR_ATTR_MSG:
            said = reply[at + 4 : at + length].rstrip(b"\0").decode() + ": "
        at += (length + 3) & ~3
    raise CommandError(said + os.strerror(-error))


# The commands.

ADDRESSES = {socket.AF_INET: ("10.9.0.1", "10.9.0.2"), socket.AF_INET6: ("fd09::1", "fd09::2")}
PORT = 9000
SYS_DELETE_MODULE, SYS_FINIT_MODULE = 176, 313
CLONE_NEWNET = 0x40000000
#: With no packet for so long, none is under way any more, s.
SILENCE = 2.0

libc = ctypes.CDLL(None, use_errno=True)


def call(function, *words):
    """Call a C function; raise what it leaves in ``errno``."""
    if function(*words) < 0:
        raise CommandError(os.strerror(ctypes.get_errno()))


class Link:
    """The two ends of the link, and sockets on either side."""

    def __init__(self):
        self.run("ip link add v0 type veth peer name v1")
        self.run("ip netns add peer")
        self.run("ip link set v1 netns peer")
        for ip, device, number in (("ip", "v0", 1), ("ip -n peer", "v1", 2)):
            self.run(f"{ip} addr add 10.9.0.{number}/24 dev {device}")
            self.run(f"{ip} addr add fd09::{number}/64 dev {device} nodad")
            self.run(f"{ip} link set {device} gso_max_segs 1 up")
            self.run(f"{ip} link set lo up")
        self.here = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.there = os.open("/run/netns/peer", os.O_RDONLY)
        self.receivers = {
            (end, family): self.receiver(end, family)
            for end in ("in", "out")
            for family in ADDRESSES
        }

    @staticmethod
    def run(command):
        subprocess.run(command.split(), check=True)

    def socket(self, there, family, kind):
        """Make a socket in the guest's own namespace or in the other one."""
        call(libc.setns, self.there if there else self.here, CLONE_NEWNET)
        made = socket.socket(family, kind)
        call(libc.setns, self.here, CLONE_NEWNET)
        return made

    def receiver(self, end, family):
        receiver = self.socket(end == "out", family, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
        if family == socket.AF_INET:
            receiver.setsockopt(socket.IPPROTO_IP, 13, 1)  # IP_RECVTOS
        else:
            receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        receiver.bind((ADDRESSES[family][end == "out"], PORT))
        return receiver


link: Link


def family_of(kind):
    return socket.AF_INET6 if kind.endswith("6") else socket.AF_INET


def send(kind, end, count, size, dscp):
    """``udp|udp6 out|in COUNT SIZE DSCP``: send packets of SIZE bytes, headers included."""
    family = family_of(kind)
    sender = link.socket(end == "in", family, socket.SOCK_DGRAM)
    sender.setsockopt(socket.SOL_SOCKET, 32, 32 << 20)  # SO_SNDBUFFORCE
    if family == socket.AF_INET:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(dscp) << 2)
    else:
        sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, int(dscp) << 2)
    to = (ADDRESSES[family][end == "out"], PORT)
    payload = bytes(int(size) - (28 if family == socket.AF_INET else 48))
    for _ in range(int(count)):
        with contextlib.suppress(OSError):  # ENOBUFS: the qdisc has dropped it, and says so
            sender.sendto(payload, to)
    sender.close()


def received(kind, end):
    """``received udp|udp6 out|in``: count what has arrived since the last time, by codepoint."""
    receiver = link.receivers[end, family_of(kind)]
    receiver.settimeout(SILENCE)
    packets, codepoints = 0, {}
    with contextlib.suppress(TimeoutError):
        while True:
            _, ancillary, _, _ = receiver.recvmsg(2048, 128)
            dscp = str(ancillary[0][2][0] >> 2)
            codepoints[dscp] = codepoints.get(dscp, 0) + 1
            packets += 1
    print(json.dumps({"packets": packets, "dscp": codepoints}))


def meet(count, *command):
    """``meet COUNT [COMMAND]``: 10.8.0.1 here and 10.8.0.2 there send to each other at once.

    COMMAND is carried out when they have begun; then all that is still under way arrives.
    """
    ends = [(link.socket(there, socket.AF_INET, socket.SOCK_DGRAM), there) for there in (0, 1)]
    for packets, pause in ((1, SILENCE), (int(count), 0.05)):  # the first one brings addresses
        for sender, there in ends:
            sender.setsockopt(socket.SOL_SOCKET, 32, 32 << 20)  # SO_SNDBUFFORCE
            for _ in range(packets):
                with contextlib.suppress(OSError):
                    sender.sendto(bytes(1400), (f"10.8.0.{2 - there}", PORT))
        time.sleep(pause)
    if command:
        subprocess.run(command, check=True)
    time.sleep(SILENCE)
    for sender, _ in ends:
        sender.close()


def transfer(kind, end, size):
    """``tcp|tcp6 out|in BYTES``: send so many bytes over a connection; print how many arrived."""
    family = family_of(kind)
    listener = link.socket(end == "out", family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((ADDRESSES[family][end == "out"], PORT))
    listener.listen()
    sender = link.socket(end == "in", family, socket.SOCK_STREAM)

    def work():
        with sender:
            sender.connect(listener.getsockname()[:2])
            sender.sendall(bytes(int(size)))

    thread = threading.Thread(target=work)
    thread.start()
    total = 0
    with listener, listener.accept()[0] as connection:
        while block := connection.recv(1 << 20):
            total += len(block)
    thread.join()
    print(total)


def module(verb, name):
    """``module load|unload NAME``; load takes the file of another one, too."""
    if verb == "load":
        path = name if "/" in name else f"/run/bin/modules/{name}.ko"
        with Path(path).open("rb") as file:
            call(libc.syscall, SYS_FINIT_MODULE, file.fileno(), b"", 0)
        return
    until = time.monotonic() + 1  # a reference may wait for RCU
    while libc.syscall(SYS_DELETE_MODULE, name.encode(), os.O_NONBLOCK) < 0:
        if time.monotonic() > until:
            raise CommandError(f"module {name}: {os.strerror(ctypes.get_errno())}")
        time.sleep(0.1)


def again(device, handle):
    """``again DEVICE HANDLE``: delete a qdisc and add it with the words by which it was shown."""
    shown = subprocess.run(
        ["tc", "qdisc", "show", "dev", device, "handle", handle], capture_output=True, text=True
    ).stdout.split()
    words = shown[shown.index("refcnt") + 2 :]
    subprocess.run(["tc", "qdisc", "del", "dev", device, "root"], check=True)
    add = ["tc", "qdisc", "add", "dev", device, "root", "handle", handle, shown[1], *words]
    done = subprocess.run(add, capture_output=True, text=True)
    if done.returncode:
        raise CommandError(f"{' '.join(add)}: {done.stderr}")


def leaks():
    """``leaks``: refuse if memory was allocated that nothing points to (needs kmemleak)."""
    call(libc.mount, b"debugfs", b"/sys/kernel/debug", b"debugfs", 0, None)
    found = Path("/sys/kernel/debug/kmemleak")
    for _ in range(2):  # an object is reported if two scans did not find it, and not at once
        time.sleep(10)
        found.write_text("scan")
    report = found.read_text()
    if report:
        raise CommandError(report)


def wait(seconds):
    """``wait SECONDS``."""
    time.sleep(float(seconds))


WORDS = {
    "udp": lambda *words: send("udp", *words),
    "udp6": lambda *words: send("udp6", *words),
    "tcp": lambda *words: transfer("tcp", *words),
    "tcp6": lambda *words: transfer("tcp6", *words),
    "received": received,
    "meet": meet,
    "module": module,
    "again": again,
    "leaks": leaks,
    "wait": wait,
    "netlink": netlink,
}


def carry_out(command):
    """Carry one command out; return its exit code and what it said."""
    program, *words = shlex.split(command)
    if program in WORDS:
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                WORDS[program](*words)
        except (CommandError, OSError) as refusal:
            return 1, said.getvalue(), str(refusal)
        return 0, said.getvalue(), ""
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def main(cases, outcomes):
    """Carry all cases out."""
    global link
    link = Link()
    with Path(cases).open(encoding="utf-8") as file:
        listed = json.load(file)
    with Path(outcomes).open("w", encoding="utf-8") as file:
        for case in listed:
            for number, command in enumerate(case["commands"]):
                code, out, err = carry_out(command)
                outcome = {"id": case["id"], "number": number, "code": code}
                file.write(json.dumps(outcome | {"out": out, "err": err}) + "\n")
                file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
