"""Checks of a host's interfaces, and of the cables between hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tcpf_lab.command import command
from tcpf_lab.spec.suggest import unknown
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh_checks import Finding, Seen, fine
from tcpf_lab.testbed.ssh_facts import Nic
from tcpf_lab.testbed.ssh_needs import Needs
from tcpf_lab.units import format_rate

#: An end of a cable: a role, and the role at the other end.
End = tuple[str, str]


@dataclass(frozen=True)
class Tried:
    """What was measured at one end of a cable, with the interface up for a moment."""

    carrier: bool
    rate: int | None = None  #: negotiated, bit/s
    half_duplex: bool = False
    reached: Mapping[End, float] = field(default_factory=dict)  #: round trip, s
    full_size: bool = True  #: whether a packet of the experiment's size came through


def control(seen: Seen) -> Finding:
    """Refuse an inventory by which a run would cut the connection that it is driven by."""
    wanted, facts = seen.host.control, seen.facts
    data = {interface: link for link, interface in seen.host.interfaces.items()}
    if wanted not in facts.nics:
        return Finding(False, unknown(f"no interface '{wanted}'", wanted, facts.nics), _EDIT)
    arrives = facts.arrives
    for device in (arrives, facts.back):
        if device in data:
            detail = f"{device} carries the connection from here, and is to be {data[device]}"
            cure = "reach the host by another interface, or take another one for that link"
            return Finding(False, detail, cure)
    if arrives not in (None, wanted) and arrives != "lo":
        detail = f"the connection from here comes in by {arrives}, not by {wanted}"
        return Finding(False, detail, f"`control: {arrives}` in the inventory")
    return fine(f"{wanted} carries the connection from here")


_EDIT = "correct the inventory: `ip -br link` on the host lists the interfaces"


def interfaces(seen: Seen) -> Iterator[tuple[str, Finding]]:
    """Check each interface of the inventory: whether it is there, and free to be moved."""
    for link, name in seen.host.interfaces.items():
        nic = seen.facts.nics.get(name)
        if nic is None:
            yield "interfaces", _absent(seen, link, name)
            continue
        yield "interfaces", _movable(seen, name, nic)
        yield "network services", _left_alone(name, nic)
        yield "offloads", _offloads(seen, name, nic)
        yield "MTU", _mtu(seen, name, nic)


def _absent(seen: Seen, link: str, name: str) -> Finding:
    if seen.facts.raw.get("unfinished"):
        cure = command("clean", "--testbed", seen.inventory.testbed)
        return Finding(False, f"no interface '{name}' for {link}: a run may have it", cure)
    return Finding(
        False, unknown(f"no interface '{name}' for {link}", name, seen.facts.nics), _EDIT
    )


def _movable(seen: Seen, name: str, nic: Nic) -> Finding:
    above = seen.facts.above(name)
    if above:
        cure = f"take it out of {', '.join(above)}: ip link set {name} nomaster, or delete these"
        return Finding(False, f"{name} is a part of {', '.join(above)}", cure)
    if nic.more.get("wireless"):
        return Finding(False, f"{name} is wireless", "use a wired interface")
    if nic.features.get("netns-local", {}).get("on"):
        return Finding(False, f"{name} cannot be moved into a namespace", "use another interface")
    return fine(name)


def _left_alone(name: str, nic: Nic) -> Finding:
    """Tell of a service that would configure the interface again when it comes back."""
    if nic.manager == "NetworkManager":
        cure = f"nmcli device set {name} managed no"
        return Finding(False, f"NetworkManager manages {name}", cure)
    if nic.manager is not None:
        file = f"/etc/systemd/network/10-tcpf-lab-{name}.network"
        text = rf"[Match]\nName={name}\n[Link]\nUnmanaged=yes\n"
        cure = f"printf '{text}' > {file}; networkctl reload"
        return Finding(False, f"{nic.manager} manages {name}", cure)
    return fine("leave these interfaces alone")


def _offloads(seen: Seen, name: str, nic: Nic) -> Finding:
    stuck = nic.stuck_on(seen.needs.offloads)
    cure = "use an interface with another driver: packets must not be joined"
    return Finding(
        not stuck,
        f"{name} cannot switch off {', '.join(stuck)}" if stuck else "can all be switched off",
        cure,
    )


def _mtu(seen: Seen, name: str, nic: Nic) -> Finding:
    wanted = seen.needs.mtu
    low, high = int(nic.link.get("min_mtu", 0)), int(nic.link.get("max_mtu", 0))
    if wanted < low or (high and wanted > high):
        detail = f"{name} takes from {low} to {high} B, {seen.needs.title} asks for {wanted} B"
        return Finding(False, detail, "change `mtu` of the topology, or use another interface")
    return fine(f"{wanted} B")


#: Every check that looks at the host's network; a check may find several things.
NETWORK_CHECKS: tuple[Callable[[Seen], Iterator[tuple[str, Finding]]], ...] = (
    lambda seen: iter((("control", control(seen)),)),
    interfaces,
)


def cables(
    inventory: Inventory, needs: Needs, tried: Mapping[End, Tried]
) -> Iterator[tuple[str, Finding]]:
    """Judge every cable by what its two ends measured: one finding for each link.

    A link is left out if one of its ends could not be tried: why is told of that host.
    """
    for a, b in inventory.links_of_roles():
        ends = ((a, b), (b, a))
        if inventory.interface(a, b) and all(end in tried for end in ends):
            yield f"link {a}-{b}", _cable(inventory, needs, tried, ends)


def _cable(
    inventory: Inventory, needs: Needs, tried: Mapping[End, Tried], ends: tuple[End, End]
) -> Finding:
    for look in (_no_carrier, _elsewhere, _too_slow, _too_small):
        finding = look(inventory, needs, tried, ends)
        if finding is not None:
            return finding
    near = tried[ends[0]]
    rate = f"{format_rate(near.rate)}/s" if near.rate else "rate not known"
    shared = len(near.reached) > 1
    detail = f"{rate}, {near.reached[ends[1]] * 1e3:.2f} ms, packets of {needs.mtu} B pass"
    return fine(f"{detail}, through a network with other links" if shared else detail)


def _no_carrier(
    inventory: Inventory, _: Needs, tried: Mapping[End, Tried], ends: tuple[End, End]
) -> Finding | None:
    dead = [_place(inventory, end) for end in ends if not tried[end].carrier]
    if not dead:
        return None
    return Finding(False, f"no carrier at {', '.join(dead)}", "plug in the cable between the two")


def _elsewhere(
    inventory: Inventory, _: Needs, tried: Mapping[End, Tried], ends: tuple[End, End]
) -> Finding | None:
    """Say where the cable leads instead, or that nothing answers."""
    for end, other in (ends, ends[::-1]):
        reached = tried[end].reached
        if other in reached:
            continue
        if reached:
            found = ", ".join(_place(inventory, there) for there in reached)
            detail = f"{_place(inventory, end)} leads to {found}"
            return Finding(False, detail, "swap the plugs, or the interfaces in the inventory")
        detail = f"nothing from {_place(inventory, end)} arrives at {_place(inventory, other)}"
        cure = "follow the cable; is there a switch between with VLANs, or that learns no address?"
        return Finding(False, detail, cure)
    return None


def _too_slow(
    inventory: Inventory, needs: Needs, tried: Mapping[End, Tried], ends: tuple[End, End]
) -> Finding | None:
    wanted = max(needs.rate(*ends[0]), inventory.rate(*ends[0]) or 0)
    for end in ends:
        measured = tried[end]
        if measured.half_duplex:
            return Finding(
                False, f"{_place(inventory, end)} is half duplex", _autoneg(inventory, end)
            )
        if measured.rate is not None and measured.rate < wanted:
            detail = f"{format_rate(measured.rate)}/s, not {format_rate(wanted)}/s"
            return Finding(False, detail, f"{_autoneg(inventory, end)}; another cable")
    return None


def _too_small(
    _: Inventory, needs: Needs, tried: Mapping[End, Tried], ends: tuple[End, End]
) -> Finding | None:
    if all(tried[end].full_size for end in ends):
        return None
    detail = f"packets of {needs.mtu} B do not pass, smaller ones do"
    return Finding(
        False, detail, "raise the MTU of what is between, or lower `mtu` of the topology"
    )


def _autoneg(inventory: Inventory, end: End) -> str:
    return f"on {inventory.host_of(end[0])}: ethtool -s {inventory.interface(*end)} autoneg on"


def _place(inventory: Inventory, end: End) -> str:
    return f"{inventory.host_of(end[0])} {inventory.interface(*end)} ({end[0]}-{end[1]})"
