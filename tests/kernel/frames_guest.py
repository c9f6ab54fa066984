"""Send frames past a marker inside a guest; started there by `test_marker_frames`.

``python frames_guest.py REQUEST RESULT``: REQUEST is a JSON list of ``{"direction", "words",
"frames"}``, RESULT gets ``{"start", "sent", "tap", "marked", "shown"}`` for each: when the marker
was made and each frame sent (ns), every frame as a capture beside the marker has it and as it is
afterwards, and what the marker shows of itself.

Frames enter at ``v0``. At the egress of ``v0`` they are marked before they reach ``v1``; at the
ingress of ``v1`` while a capture holds another reference to them, and they leave by ``w0`` to
``w1``.
"""

import json
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

ETH_P_ALL = 3
PACKET_OUTGOING = 4
#: Between two frames, s: no multiple of it is a tick's.
APART = 0.007
LATER = 0.0033

EGRESS = (
    "tc qdisc add dev v0 clsact",
    "tc actions add action {words} index {index}",
    "tc filter add dev v0 egress matchall action {kind} index {index}",
)
INGRESS = (
    "tc qdisc add dev v1 clsact",
    "tc actions add action {words} index {index}",
    "tc filter add dev v1 ingress matchall action {kind} index {index}"
    " action mirred egress redirect dev w0",
)
LINKS = (
    "ip link add v0 type veth peer name v1",
    "ip link add w0 type veth peer name w1",
    "ip link set v0 mtu 9000 up",
    "ip link set v1 mtu 9000 up",
    "ip link set w0 mtu 9000 up",
    "ip link set w1 mtu 9000 up",
)


def do(commands, **words):
    for command in commands:
        subprocess.run(command.format(**words).split(), check=True)


def capture(device):
    socket_ = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    socket_.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
    socket_.bind((device, ETH_P_ALL))
    return socket_


def captured(socket_):
    """Take what has come in from the other side; nothing more is under way."""
    frames = []
    while select.select([socket_], [], [], 0.1)[0]:
        frame, (_, _, kind, _, _) = socket_.recvfrom(65535)
        if kind != PACKET_OUTGOING:
            frames.append(frame.hex())
    return frames


def run(index, direction, words, frames):
    setup, marked_at = (EGRESS, "v1") if direction == "egress" else (INGRESS, "w1")
    tap, marked = capture("v1"), capture(marked_at)
    kind = words.split()[0]
    do(setup, words=f"{words} forward {direction}", kind=kind, index=index)
    start = time.monotonic_ns()
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind(("v0", 0))
    sent = []
    for number, frame in enumerate(frames):
        at = start + int((number * APART + LATER) * 1e9)
        time.sleep((at - time.monotonic_ns()) / 1e9)
        sent.append(time.monotonic_ns())
        sender.send(bytes.fromhex(frame))
    result = {"start": start, "sent": sent, "tap": captured(tap), "marked": captured(marked)}
    show = f"tc -s -j actions get action {kind} index {index}"
    shown = subprocess.run(show.split(), check=True, capture_output=True, text=True)
    do((f"tc qdisc del dev {setup[0].split()[4]} clsact",))
    return result | {"shown": json.loads(shown.stdout)}


def main(request, result):
    # No frames but ours.
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    do(LINKS)
    runs = json.loads(Path(request).read_text())
    done = [run(index, **one) for index, one in enumerate(runs, 1)]
    Path(result).write_text(json.dumps(done))


if __name__ == "__main__":
    main(*sys.argv[1:])
