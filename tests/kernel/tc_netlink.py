"""Netlink requests that tc would not send; used by `tc_guest`."""

from __future__ import annotations

import os
import socket
import struct

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
