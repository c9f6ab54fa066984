"""The markers in the papers' formulas: the token bucket, and TCP-friendly marking."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

MODES = ("reset", "continuous", "flow")
#: Bytes; a pool that is so close to a packet's length in floating point may be on either side.
CLOSE = 1e-4


class Pool:
    def __init__(self, tokens: float | Fraction, now: int) -> None:
        self.tokens = tokens
        self.now = now


class TokenMarker:
    """Marks as ``net/token_marker.h``; exactly so if ``number`` is Fraction."""

    def __init__(
        self,
        mode: str,
        interval: int,
        tokens: int,
        flows: int,
        t0: int,
        number: Callable[[int], float | Fraction] = float,
    ) -> None:
        self.mode = mode
        self.interval = interval
        self.full = number(tokens)
        self.rate = number(tokens) / interval
        self.inexact = isinstance(self.full, float)
        self.capacity = flows
        self.t0 = t0
        self.pool = Pool(self.full, t0)
        self.flows: OrderedDict[int, Pool] = OrderedDict()
        self.evicted = 0
        self.unsure = 0  #: evictions of a pool that is too close to full to call
        self.tick = 0

    def packet(self, now: int, length: int, flow: int) -> tuple[bool, bool]:
        """Return whether the packet is IN, and whether this is too close to call."""
        pool = self._of(flow, now) if self.mode == "flow" else self.pool
        if self.mode == "reset":
            tick = (now - self.t0) // self.interval
            if tick > self.tick:
                self.tick, pool.tokens = tick, self.full
        else:
            pool.tokens = min(self.full, pool.tokens + (now - pool.now) * self.rate)
            pool.now = now
        inside = pool.tokens >= length
        return inside, abs(pool.tokens - length) < CLOSE

    def take(self, length: int, flow: int) -> None:
        """Take the tokens of a packet that is IN."""
        pool = self.flows[flow] if self.mode == "flow" else self.pool
        pool.tokens -= length

    def _of(self, flow: int, now: int) -> Pool:
        if flow in self.flows:
            self.flows.move_to_end(flow)
            return self.flows[flow]
        if len(self.flows) == self.capacity:
            _, pool = self.flows.popitem(last=False)
            missing = self.full - pool.tokens - (now - pool.now) * self.rate
            self.evicted += missing > 0
            self.unsure += self.inexact and abs(missing) < CLOSE
        self.flows[flow] = Pool(self.full, now)
        return self.flows[flow]


# Algorithms 1 and 2 of "TCP Friendly Marking" line by line: dictionaries, floats, sorting.
#
# What the paper leaves open is decided as ``kernel/include/net/tcpf_marker.h`` says, by its names
# r1 to r22. Bytes are whole (r1). S, count and W are floats here and fixed point there, so a
# comparison may fall within rounding; then, and only then, ``resolve`` is asked for the answer.

FIN, SYN, RST, ACK = 1, 2, 4, 16
K = 4
SECOND = 1_000_000_000
# S is rounded down by less than 2^-32 for each packet that became IN; floats add far less.
SPACING_ERROR = 2.0**-32
FLOAT_ERROR = 1e-9
# W is less than 8 / 2^16 bytes too large.
WINDOW_ERROR = 8 / 2**16


@dataclass(frozen=True)
class Packet:
    """What a header says; ``flow`` names the forward direction's 5-tuple in both directions."""

    flow: int
    seq: int = 0
    ack: int = 0
    payload: int = 0
    length: int = 40
    flags: int = ACK
    mss: int = 0
    timestamps: bool = False
    tcp: bool = True


@dataclass
class Flow:
    """One direction of a connection."""

    snd_max: int
    una: int
    last_seen: int
    mss_option: int
    mss: int = 0
    progress: int = 0
    closed: int = 0
    window: float | None = None
    sent: int = 0
    estimate: int = 0
    in_count: int = 0
    spacing: float = 0.0
    count: float = 0.0
    ins: int = 0
    ticked: bool = False
    tiny: bool = False
    ended: set[str] = field(default_factory=set)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is expected."""
        return "reset" in self.ended or {"fin forward", "fin reverse"} <= self.ended


def before(a: int, b: int) -> bool:
    """Whether sequence number ``a`` is before ``b`` (r17)."""
    return (a - b) % 2**32 >= 2**31


def max_min(capacity: int, demands: dict[int, int]) -> dict[int, int]:
    """Divide ``capacity`` bytes among the demands, max-min fair, in whole bytes."""
    shares: dict[int, int] = {}
    left = len(demands)
    for flow, demand in sorted(demands.items(), key=lambda item: item[1]):
        if demand * left > capacity:
            return shares | {f: capacity // left for f in demands if f not in shares}
        shares[flow] = demand
        capacity -= demand
        left -= 1
    return shares


class Marker:
    """The marker; ``resolve(what, flow, ours)`` answers what rounding may decide either way."""

    def __init__(
        self,
        *,
        interval: int,
        tokens: int,
        paper: bool = False,
        plain: bool = False,
        flows: int = 65536,
        now: int = 0,
        resolve: Callable[[str, int, bool], bool] = lambda what, flow, ours: ours,
    ) -> None:
        self.interval = interval
        self.tokens = tokens
        self.paper = paper
        self.plain = plain
        self.capacity = flows
        self.resolve = resolve
        self.flows: OrderedDict[int, Flow] = OrderedDict()
        self.handshakes: OrderedDict[int, int] = OrderedDict()
        self.next_tick = now + interval
        self.spare = tokens
        self.debt = 0
        self.ties = 0

    # ---- Algorithm 1: token allocation

    def tick(self, at: int) -> None:
        """Allocate one interval's tokens (a tick that was due at ``at``)."""
        demands, tiny = self.assess(at)
        m = max(0, self.tokens - self.debt)
        self.debt = 0
        available = m - sum(demands[i] for i in tiny)  # (a) (b)
        others = {i: e for i, e in demands.items() if i not in tiny}
        if available <= 0:  # (c)
            shares = dict.fromkeys(others, 0)  # (c.2)
            shares |= max_min(m, {i: demands[i] for i in tiny})  # (c.1)
        else:  # (d)
            shares = {i: demands[i] for i in tiny}  # (d.1)
            shares |= max_min(available, others)  # (d.2)
        for i, share in shares.items():
            self.allocate(self.flows[i], share)
        self.spare = m - sum(shares.values())

    def assess(self, at: int) -> tuple[dict[int, int], set[int]]:
        """Return the demands of the flows that take part, and which of them are tiny."""
        demands: dict[int, int] = {}
        tiny: set[int] = set()
        for i, f in list(self.flows.items()):
            sent, f.sent = f.sent, 0
            f.estimate = (f.estimate + sent) // 2 if f.ticked else sent
            if f.is_closed and at >= f.closed + 2 * self.interval:
                del self.flows[i]
            elif sent == 0 and f.estimate < f.mss:  # r13
                f.ticked, f.tiny, f.estimate, f.in_count = False, False, 0, min(0, f.in_count)
            else:
                f.tiny = self.is_tiny(i, f)
                demands[i] = f.estimate
                if f.tiny:
                    tiny.add(i)
                    demands[i] = f.estimate if self.paper else max(f.estimate, sent)  # r20
        return demands, tiny

    def is_tiny(self, i: int, f: Flow) -> bool:
        """W(i) < K * MSS."""
        window = f.window or 0.0
        ours = window < K * f.mss
        if not K * f.mss - WINDOW_ERROR < window < K * f.mss:
            return ours
        self.ties += 1
        return self.resolve("tiny", i, ours)

    def allocate(self, f: Flow, share: int) -> None:
        """Give a flow its tokens, and the spacing that spreads them over what it will send."""
        f.spacing = max(0.0, f.estimate / share - 1) if share > 0 else inf
        f.in_count = share if self.paper else share + min(0, f.in_count)  # r2
        f.count = min(f.count, f.spacing + 1 if share > 0 else 1)  # r4
        f.ticked = True

    def advance(self, now: int) -> None:
        """Take the ticks that are due, and forget who was silent for too long."""
        if now < self.next_tick:
            return
        while self.next_tick <= now:
            self.tick(self.next_tick)
            self.next_tick += self.interval
        for i in [i for i, f in self.flows.items() if now >= f.last_seen + 120 * SECOND]:
            del self.flows[i]

    # ---- Algorithm 2: packet marking

    def forward(self, p: Packet, now: int) -> str:
        """Mark a packet of the data's direction; the answer is the reason."""
        self.advance(now)
        if not p.tcp:
            return "other"
        is_control = p.flags & (SYN | RST) or (p.flags & FIN and not p.payload)
        if not is_control and not p.payload:
            return "ack"
        f = self.touch(p.flow, now)
        if is_control:
            return self.control(f, p, now)
        if f is None:
            f = self.create(p, now)
        if p.flags & FIN:
            self.end(f, "fin forward", now)
        return self.data(f, p, now)

    def data(self, f: Flow, p: Packet, now: int) -> str:
        """Algorithm 2 itself."""
        again = self.observe(f, p, now)
        if again and not self.plain:  # (b)
            if not self.paper:  # r7
                self.charge(p.length)
            return "retransmission"
        if not f.ticked:  # r12
            if self.spare < p.length:
                return "no_spare"
            self.spare -= p.length
            return "new"
        if f.in_count > 0:  # (c)
            if self.is_turn(p.flow, f):  # (c.1)
                f.count = max(0.0, f.count - f.spacing)
                f.in_count -= p.length
                f.ins += 1
                return "tiny" if f.tiny else "allocated"
            f.count += 1  # (c.2)
            return "spaced"
        return "no_tokens"  # (d)

    def is_turn(self, i: int, f: Flow) -> bool:
        """count(i) >= S(i)."""
        ours = f.count >= f.spacing
        if f.spacing == 0 or abs(f.count - f.spacing) > (f.ins + 1) * SPACING_ERROR + FLOAT_ERROR:
            return ours
        self.ties += 1
        return self.resolve("turn", i, ours)

    def observe(self, f: Flow, p: Packet, now: int) -> bool:
        """Update the estimates; is the packet a retransmission (r14)?"""
        probe = p.payload <= 1 and (p.seq + 1 - f.snd_max) % 2**32 == 0
        again = before(p.seq, f.snd_max) and not probe
        f.sent += p.length
        if f.mss_option:  # r11
            f.mss = max(88, f.mss_option - 12 * p.timestamps)
        else:
            f.mss = max(f.mss, p.payload, 536)
        if f.una == f.snd_max:
            f.progress = now
        end = (p.seq + p.payload + bool(p.flags & FIN)) % 2**32
        if before(f.snd_max, end):
            f.snd_max = end
        in_flight = (f.snd_max - f.una) % 2**32  # r9
        if in_flight < 2**31:
            f.window = in_flight if f.window is None else f.window + (in_flight - f.window) / 8
        if not again:
            f.ended.discard("reset")
        elif self.has_expired(f, p, now):
            f.window = float(f.mss)
        return again

    def has_expired(self, f: Flow, p: Packet, now: int) -> bool:
        """Does a retransmission show that the sender's timer has expired (r10)?"""
        if self.paper or self.plain:
            return False
        return p.seq == f.una and now >= f.progress + SECOND // 5

    def control(self, f: Flow | None, p: Packet, now: int) -> str:
        """Note how connections begin and end (r13, r15)."""
        reason = "control"
        if p.payload and self.spare < p.length:
            reason = "no_spare"
        elif p.payload:
            self.spare -= p.length
            reason = "new"
        else:
            self.spare -= min(self.spare, p.length)
        if f is not None:
            if self.is_reused(f, p):
                del self.flows[p.flow]
            elif p.flags & RST:
                self.end(f, "reset", now)
            elif p.flags & FIN:
                end = (p.seq + 1) % 2**32
                f.snd_max = end if before(f.snd_max, end) else f.snd_max
                self.end(f, "fin forward", now)
        return reason

    @staticmethod
    def is_reused(f: Flow, p: Packet) -> bool:
        """Does a SYN begin another connection between the same ports?"""
        return bool(p.flags & SYN and (not p.flags & ACK or f.ended))

    def charge(self, length: int) -> None:
        """Pay for a retransmission (r7, r8)."""
        paid = min(self.spare, length)
        self.spare -= paid
        self.debt = min(self.debt + length - paid, self.tokens // 2)

    def reverse(self, p: Packet, now: int) -> None:
        """Read a packet of the other direction: its ACK, and what begins or ends there."""
        self.advance(now)
        if not p.tcp:
            return
        f = self.touch(p.flow, now)
        if f is not None and self.is_reused(f, p):
            del self.flows[p.flow]
            f = None
        if f is None:
            if p.flags & SYN and p.mss:
                self.handshake(p)
            return
        if p.flags & ACK and before(f.una, p.ack) and not before(f.snd_max, p.ack):
            f.una = p.ack
            f.progress = now
        if p.flags & RST:
            self.end(f, "reset", now)
        elif p.flags & FIN:
            self.end(f, "fin reverse", now)

    # ---- records

    def touch(self, i: int, now: int) -> Flow | None:
        """Return the flow, as the one last used, if it is known."""
        f = self.flows.get(i)
        if f is None:
            return None
        if now >= f.last_seen + 120 * SECOND:
            del self.flows[i]
            return None
        f.last_seen = now
        self.flows.move_to_end(i)
        return f

    def create(self, p: Packet, now: int) -> Flow:
        """Make the record of a flow that has sent data; the one longest silent gives way."""
        if len(self.flows) == self.capacity:
            self.flows.popitem(last=False)
        f = Flow(p.seq, p.seq, now, self.handshakes.pop(p.flow, 0))
        self.flows[p.flow] = f
        return f

    def handshake(self, p: Packet) -> None:
        """Remember the MSS that a data receiver offers (r11)."""
        if p.flow not in self.handshakes and len(self.handshakes) == min(
            max(self.capacity // 16, 16), 4096
        ):
            self.handshakes.popitem(last=False)
        self.handshakes[p.flow] = max(88, p.mss)

    def end(self, f: Flow, how: str, now: int) -> None:
        """Note that a side has ended."""
        was_closed = f.is_closed
        f.ended.add(how)
        if f.is_closed and not was_closed:
            f.closed = now
