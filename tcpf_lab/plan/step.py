"""The vocabulary of a plan: the operations of a testbed, as plain data.

A plan is complete before anything is touched.  Each step names the node it concerns, so that one
testbed can compile the whole plan into instructions for a guest while another interprets it over
SSH, step by step.  No step is a
bare sleep: programs have a readiness condition, queues are drained, and instants count from
the agreed epoch.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

#: Stands for the epoch in arguments: the CLOCK_REALTIME second all instants of a run count from.
EPOCH = "{epoch}"
#: Stands for the directory of the project's own programs on the node.
PROGRAMS = "{programs}"
#: Commands of these that follow each other on a node may go to a single process (`-batch`).
BATCH_PROGRAMS = ("ip", "tc")


@dataclass(frozen=True)
class Ready:
    """A started program is ready once ``text`` stands in the run's file ``path``."""

    path: str
    text: str
    timeout: float = 10.0


@dataclass(frozen=True)
class AddNode:
    """Make the network namespace that is the node."""

    node: str

    def __str__(self) -> str:
        return _line(None, shlex.join(("ip", *self.words)))

    @property
    def words(self) -> tuple[str, ...]:
        """Give the arguments of ``ip`` that do it."""
        return ("netns", "add", self.node)


@dataclass(frozen=True)
class End:
    """One end of a link: the interface in its node, by the name and address it is to have."""

    node: str
    device: str
    mac: str


@dataclass(frozen=True)
class AddLink:
    """Put an interface into each of two nodes such that what leaves one arrives at the other.

    Between nodes of one kernel this is a pair of veth devices, or with a ``ring`` of frames two
    stations on a half-duplex wire (``kernel/drivers/csma.c``); ``commands`` make it.  Where an
    inventory names interfaces of hosts, these are moved into the nodes instead.
    """

    ends: tuple[End, End]
    mtu: int
    rate: (
        int  #: that the link is to have, bit/s; set by other steps, and a cable's must not be less
    )
    ring: int = 0
    seed: int = 0  #: of the wire's random numbers

    def __str__(self) -> str:
        return "\n".join(_line(self.place, shlex.join(("ip", *words))) for words in self.commands)

    @property
    def place(self) -> str | None:
        """Give the node that ``commands`` are run in, if in any: a station joins another there."""
        return self.ends[0].node if self.ring else None

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """Give the arguments of each ``ip`` that does it within one kernel."""
        near, far = (
            ("name", end.device, "address", end.mac, "mtu", str(self.mtu)) for end in self.ends
        )
        there, ring = ("netns", self.ends[1].node), ("ring", str(self.ring))
        if not self.ring:
            here = ("netns", self.ends[0].node)
            return (("link", "add", *near, *here, "type", "veth", "peer", *far, *there),)
        wire = ("rate", f"{self.rate // 10**6}mbit", "seed", str(self.seed))
        first = ("link", self.ends[0].device)
        return (
            ("link", "add", *near, "type", "csma", *wire, *ring),
            ("link", "add", *first, *far, *there, "type", "csma", *ring),
        )


@dataclass(frozen=True)
class Command:
    """Run to completion; a non-zero exit ends the run with an error.

    Without a node it is run on a guest itself, outside of all nodes.
    """

    node: str | None
    argv: tuple[str, ...]
    output: str | None = None  #: file of the run directory that gets standard output

    def __str__(self) -> str:
        return _line(self.node, shlex.join(self.argv), self.output)


@dataclass(frozen=True)
class LoadModule:
    """Load one of the project's kernel modules into the kernel that ``node`` runs on.

    The plan orders modules such that what a module needs has been loaded before it.
    """

    node: str
    name: str

    def __str__(self) -> str:
        return _line(self.node, f"load module {self.name}")


@dataclass(frozen=True)
class Sysctl:
    """Set a kernel parameter of a node's network namespace; without a node, of every kernel."""

    node: str | None
    key: str
    value: str

    def __str__(self) -> str:
        return _line(self.node, f"sysctl -w {self.key}={shlex.quote(self.value)}")


@dataclass(frozen=True)
class ReadSysctls:
    """Write ``key = value`` lines, as ``sysctl`` prints them, to a file of the run."""

    node: str
    keys: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        return _line(self.node, f"sysctl {' '.join(self.keys)}", self.output)


@dataclass(frozen=True)
class ReadFile:
    """Copy a file of a node, such as a counter below ``/proc/net``, to a file of the run.

    What is ``optional`` only some kernels have; where it is not there the run has no such file.
    """

    node: str
    path: str
    output: str
    optional: bool = False

    def __str__(self) -> str:
        condition = f"test ! -e {self.path} || " if self.optional else ""
        return _line(self.node, f"{condition}cat {self.path}", self.output)


@dataclass(frozen=True)
class Offloads:
    """Switch offloads of a device, and write what is in force, as ``ethtool -k`` prints it."""

    node: str
    device: str
    features: tuple[str, ...]
    output: str
    on: bool = False

    def __str__(self) -> str:
        state = "on" if self.on else "off"
        words = " ".join(f"{feature} {state}" for feature in self.features)
        return _line(self.node, f"ethtool -K {self.device} {words}; ethtool -k", self.output)


@dataclass(frozen=True)
class Start:
    """Start a program that runs beside the following steps until it is stopped or finishes.

    ``at`` delays it until that many seconds after the epoch.
    """

    node: str
    name: str
    argv: tuple[str, ...]
    output: str | None = None
    errors: str | None = None
    ready: Ready | None = None
    at: float | None = None

    def __str__(self) -> str:
        when = "" if self.at is None else f" at {self.at:.6f} s"
        text = f"start {self.name}{when}: {shlex.join(self.argv)}"
        if self.errors:
            text += f" 2> {self.errors}"
        line = _line(self.node, text, self.output)
        if self.ready:
            line += f"  # ready when {self.ready.path} says {self.ready.text!r}"
        return line


@dataclass(frozen=True)
class AgreeEpoch:
    """Agree on the epoch, ``lead`` seconds from now, and write it to a file of the run."""

    lead: int
    output: str

    def __str__(self) -> str:
        return _line(None, f"agree on the epoch: {self.lead} s from now", self.output)


@dataclass(frozen=True)
class Finish:
    """Wait until started programs have ended by themselves; a non-zero exit is an error."""

    names: tuple[str, ...]
    deadline: float  #: seconds after the epoch

    def __str__(self) -> str:
        return _line(None, f"await the end of {_some(self.names)} (by {self.deadline:.10g} s)")


@dataclass(frozen=True)
class Drained:
    """Wait until the queues of a device are empty."""

    node: str
    device: str
    timeout: float

    def __str__(self) -> str:
        return _line(self.node, f"await an empty queue on {self.device} ({self.timeout:.10g} s)")


@dataclass(frozen=True)
class Stop:
    """Interrupt started programs (SIGINT) and wait until they have written everything."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return _line(None, f"stop {_some(self.names)}")


@dataclass(frozen=True)
class LetPass:
    """Let a time pass that something is known to need and that nothing announces the end of."""

    seconds: float
    reason: str

    def __str__(self) -> str:
        return _line(None, f"let {self.seconds:.10g} s pass: {self.reason}")


Step = (
    AddNode
    | AddLink
    | Command
    | LoadModule
    | Sysctl
    | ReadSysctls
    | ReadFile
    | Offloads
    | Start
    | AgreeEpoch
    | Finish
    | Drained
    | Stop
    | LetPass
)


@dataclass(frozen=True)
class Phase:
    """Steps that serve one purpose; the purpose is their heading in ``plan.txt``."""

    name: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join([f"# {self.name}", *map(str, self.steps)])


def _line(node: str | None, text: str, output: str | None = None) -> str:
    return f"{node or '-':<4} {text}" + (f" > {output}" if output else "")


def _some(names: tuple[str, ...], shown: int = 4) -> str:
    """List a few names and count the rest: 100 flows would fill a screen."""
    if len(names) <= shown:
        return ", ".join(names)
    return f"{', '.join(names[:shown])} and {len(names) - shown} more"
