"""Packets of a few TCP connections and all that happens to them; both markers side by side."""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass, field

from models.markers import ACK, FIN, RST, SECOND, SYN, Flow, Marker, Packet

REASONS = (
    *("control", "ack", "retransmission", "new", "tiny", "allocated"),
    *("spaced", "no_tokens", "no_spare", "other", "unparseable"),
)
PACKET_IP, PACKET_TCP = 1, 2


class CPacket(ctypes.Structure):
    """``struct drive_packet``."""

    _fields_ = (
        ("now", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("flow", "seq", "ack_seq", "payload", "len")),
        ("mss", ctypes.c_uint16),
        *((name, ctypes.c_uint8) for name in ("flags", "kind", "reverse", "timestamps")),
    )


class CFlow(ctypes.Structure):
    """``struct drive_flow``."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("window", "spacing", "count")),
        ("in_count", ctypes.c_int64),
        *((name, ctypes.c_uint32) for name in ("snd_max", "una", "sent", "estimate")),
        *((name, ctypes.c_uint32) for name in ("demand", "mss", "tiny", "ticked")),
    )


class CTotals(ctypes.Structure):
    """``struct drive_totals``."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("ticks", "evicted", "expired")),
        *((name, ctypes.c_uint32) for name in ("flows", "handshakes", "active", "tiny")),
        *((name, ctypes.c_uint32) for name in ("pool", "spare", "debt", "pad")),
    )


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Tell ctypes the types of ``drive_tcpf_marker.so``."""
    number, pointer, yes = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_bool
    library.drive_new.restype = pointer
    library.drive_new.argtypes = (
        number,
        ctypes.c_uint32,
        yes,
        yes,
        ctypes.c_uint32,
        number,
        number,
    )
    library.drive_free.argtypes = (pointer,)
    library.drive_step.argtypes = (pointer, ctypes.POINTER(CPacket))
    library.drive_look.argtypes = (pointer, ctypes.c_uint32, ctypes.POINTER(CFlow))
    library.drive_look.restype = yes
    library.drive_totals.argtypes = (pointer, ctypes.POINTER(CTotals))
    library.drive_resize.argtypes = (pointer, ctypes.c_uint32)
    library.drive_syns.argtypes = (pointer, ctypes.c_uint32, ctypes.c_uint32, yes, number)
    library.drive_change.argtypes = (pointer, number, ctypes.c_uint32, yes, yes, number)
    return library


@dataclass(frozen=True)
class Setting:
    """Parameters of a marker."""

    interval: int = 2 * SECOND // 5
    tokens: int = 30_000
    paper: bool = False
    plain: bool = False
    flows: int = 64


class Pair:
    """The header's marker and the model, which must agree."""

    def __init__(self, library: ctypes.CDLL, setting: Setting, seed: int, now: int) -> None:
        self.library = library
        s = setting
        self.handle = library.drive_new(s.interval, s.tokens, s.paper, s.plain, s.flows, seed, now)
        self.model = Marker(
            interval=s.interval,
            tokens=s.tokens,
            paper=s.paper,
            plain=s.plain,
            flows=s.flows,
            now=now,
            resolve=self.resolve,
        )
        self.reason = ""

    def close(self) -> None:
        self.library.drive_free(self.handle)

    def resolve(self, what: str, flow: int, ours: bool) -> bool:
        """Within rounding, the header decides."""
        if what == "turn":
            return self.reason in ("tiny", "allocated")
        state = self.look(flow)
        return ours if state is None else bool(state.tiny)

    def look(self, flow: int) -> CFlow | None:
        state = CFlow()
        found = self.library.drive_look(self.handle, flow, ctypes.byref(state))
        return state if found else None

    def totals(self) -> CTotals:
        totals = CTotals()
        self.library.drive_totals(self.handle, ctypes.byref(totals))
        return totals

    @staticmethod
    def encode(p: Packet, now: int, *, reverse: bool = False) -> CPacket:
        kind = PACKET_TCP if p.tcp else PACKET_IP
        sizes = (p.payload, p.length, p.mss)
        return CPacket(now, p.flow, p.seq, p.ack, *sizes, p.flags, kind, reverse, p.timestamps)

    def step(self, p: Packet, now: int, *, reverse: bool) -> tuple[str, str]:
        """Give both a packet; return the header's reason and the model's."""
        packet = self.encode(p, now, reverse=reverse)
        number = self.library.drive_step(self.handle, ctypes.byref(packet))
        if reverse:
            self.model.reverse(p, now)
            return "", ""
        self.reason = REASONS[number]
        return self.reason, self.model.forward(p, now)

    def differences(self, flow: int) -> list[str]:
        """Say in what the two know different things."""
        totals = self.totals()
        found = [
            f"{name}: {ours} is {wanted} in the model"
            for name, ours, wanted in (
                ("spare", totals.spare, self.model.spare),
                ("debt", totals.debt, self.model.debt),
                ("flows", totals.flows, len(self.model.flows)),
                ("handshakes", totals.handshakes, len(self.model.handshakes)),
            )
            if ours != wanted
        ]
        state, f = self.look(flow), self.model.flows.get(flow)
        if state is None or f is None:
            return found + ([] if state is None and f is None else [f"flow: {state} and {f}"])
        return found + flow_differences(state, f)


def flow_differences(state: CFlow, f: Flow) -> list[str]:
    """Compare what is known of a flow: whole bytes exactly, the rest within rounding."""
    whole = ("snd_max", "una", "sent", "estimate", "in_count", "mss", "tiny", "ticked")
    found = [
        f"{name}: {getattr(state, name)} is {getattr(f, name)} in the model"
        for name in whole
        if getattr(state, name) != getattr(f, name)
    ]
    window = state.window / 2**16 - (f.window or 0.0)
    if not -1e-6 <= window <= 8 / 2**16:
        found.append(f"window is {window} more than the model's")
    if state.ticked and f.in_count > 0:
        spacing = f.spacing - state.spacing / 2**32
        if not -1e-9 * (1 + f.spacing) <= spacing <= 2**-32 + 1e-9 * (1 + f.spacing):
            found.append(f"spacing is {spacing} less than the model's")
        count = state.count / 2**32 - f.count
        if abs(count) > (f.ins + 1) * 2**-32 + 1e-6:
            found.append(f"count is {count} more than the model's")
    return found


@dataclass
class Sender:
    """One connection whose data goes forward."""

    flow: int
    isn: int
    timestamps: bool
    mss: int
    nxt: int = 0
    una: int = 0
    peer: int = 0
    unacked: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nxt = self.una = (self.isn + 1) % 2**32


class Traffic:
    """A stream of packets in both directions, drawn from ``rng``: not polite, but plausible."""

    def __init__(self, rng: random.Random, connections: int) -> None:
        self.rng = rng
        self.now = rng.randrange(SECOND)
        self.senders = [self.sender(flow) for flow in range(connections)]
        self.backlog: list[tuple[Packet, bool]] = []

    def sender(self, flow: int) -> Sender:
        rng = self.rng
        isn = rng.choice((rng.randrange(2**32), 2**32 - rng.randrange(30_000)))
        s = Sender(flow, isn, rng.random() < 0.5, rng.choice((60, 536, 1000, 1460)))
        s.peer = rng.randrange(2**32)
        return s

    def __iter__(self) -> Traffic:
        return self

    def __next__(self) -> tuple[Packet, int, bool]:
        rng = self.rng
        if not self.backlog:
            self.now += self.pause()
            self.backlog = self.burst(rng.choice(self.senders))
        packet, reverse = self.backlog.pop(0)
        self.now += rng.randrange(50_000)
        return packet, self.now, reverse

    def pause(self) -> int:
        """Mostly milliseconds, at times intervals, seldom minutes."""
        scale = self.rng.choices((10**6, 10**8, 10**9, 10**11), (900, 95, 4.5, 0.5))[0]
        return self.rng.randrange(2 * scale)

    def burst(self, s: Sender) -> list[tuple[Packet, bool]]:
        kinds = (
            (self.new_data, 50),
            (self.acknowledge, 30),
            (self.again, 12),
            (self.odd, 5),
            (self.restart, 1.2),
            (self.finish, 0.8),
            (self.strange, 1),
        )
        (kind,) = self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])
        return kind(s)

    def data(self, s: Sender, seq: int, payload: int, flags: int = ACK) -> tuple[Packet, bool]:
        length = 40 + 12 * s.timestamps + payload
        packet = Packet(
            s.flow, seq % 2**32, s.peer, payload, length, flags, timestamps=s.timestamps
        )
        return packet, False

    def back(self, s: Sender, flags: int = ACK, ack: int | None = None) -> tuple[Packet, bool]:
        payload = self.rng.choice((0, 0, 0, 700))  # ACKs may ride on data
        ack = s.una if ack is None else ack
        return Packet(s.flow, s.peer, ack % 2**32, payload, 40 + payload, flags), True

    def new_data(self, s: Sender) -> list[tuple[Packet, bool]]:
        sent = []
        for _ in range(self.rng.choice((1, 1, 2, 3, 4, 8, 30))):
            size = self.rng.choice((s.mss, s.mss, s.mss, self.rng.randint(1, s.mss)))
            sent.append(self.data(s, s.nxt, size))
            s.unacked.append((s.nxt, size))
            s.nxt = (s.nxt + size) % 2**32
        return sent

    def acknowledge(self, s: Sender) -> list[tuple[Packet, bool]]:
        acked = self.rng.randint(0, len(s.unacked))  # 0: a duplicate
        for seq, size in s.unacked[:acked]:
            s.una = (seq + size) % 2**32
        del s.unacked[:acked]
        return [self.back(s)] * self.rng.choice((1, 1, 3))

    def again(self, s: Sender) -> list[tuple[Packet, bool]]:
        if not s.unacked:
            return self.new_data(s)
        first = self.rng.choice((0, 0, self.rng.randrange(len(s.unacked))))
        seq, size = s.unacked[first]
        if self.rng.random() < 0.2:  # cut otherwise: a part of it, or beyond its end
            seq, size = (seq + size // 3) % 2**32, self.rng.randint(1, s.mss)
        return [self.data(s, seq, size)]

    def odd(self, s: Sender) -> list[tuple[Packet, bool]]:
        """Keep-alives, probes, pure ACKs, ACKs of what was never sent, other protocols."""
        return [
            self.rng.choice(
                (
                    self.data(s, s.nxt - 1, 1),
                    self.data(s, s.nxt - 1, 0),
                    self.data(s, s.nxt, 0),
                    self.back(s, ack=s.nxt + self.rng.randrange(1, 2**30)),
                    self.back(s, ack=s.una - self.rng.randrange(1, 2**20)),
                    self.back(s, flags=0),
                    (Packet(s.flow, length=self.rng.randint(20, 1500), tcp=False), False),
                    (Packet(s.flow, length=60, tcp=False), True),
                )
            )
        ]

    def restart(self, s: Sender) -> list[tuple[Packet, bool]]:
        """A new connection on the same ports, opened from either side."""
        new = self.sender(s.flow)
        self.senders[self.senders.index(s)] = new
        mss = self.rng.choice((0, 1, 100, new.mss, 65535))
        there = (Packet(s.flow, new.isn, 0, 0, 60, SYN), False)
        back = (Packet(s.flow, new.peer, (new.isn + 1) % 2**32, 0, 60, SYN | ACK, mss), True)
        first = (Packet(s.flow, new.peer, 0, 0, 60, SYN, mss), True)
        answer = (Packet(s.flow, new.isn, new.peer, 0, 60, SYN | ACK), False)
        return self.rng.choice(([there, back], [first, answer, self.back(new)], [there], [first]))

    def finish(self, s: Sender) -> list[tuple[Packet, bool]]:
        size = self.rng.choice((0, s.mss))
        fin = self.data(s, s.nxt, size, FIN | ACK)
        s.nxt = (s.nxt + size + 1) % 2**32
        s.unacked.clear()
        s.una = s.nxt
        rst = self.data(s, s.nxt, 0, RST)
        ends = ([fin], [fin, fin], [self.back(s, FIN | ACK)], [rst], [self.back(s, RST)])
        both = [fin, self.back(s, FIN | ACK), self.data(s, s.nxt, 0)]
        return self.rng.choice((*ends, both, both, both))

    def strange(self, s: Sender) -> list[tuple[Packet, bool]]:
        """What no host sends."""
        rng = self.rng
        flags = rng.choice((SYN | FIN, SYN | RST, RST | ACK, SYN | ACK, FIN, 0, ACK))
        seq = rng.choice((s.nxt, s.nxt + 2**31, s.nxt + 2**30, rng.randrange(2**32)))
        payload = rng.choice((0, 1, s.mss))
        forward = self.data(s, seq, payload, flags)
        return [rng.choice((forward, self.back(s, flags, ack=seq)))]
