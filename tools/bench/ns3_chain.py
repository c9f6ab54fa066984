"""Configuration A in ns-3: what a discrete-event simulator takes for the same load.

``python tools/bench/ns3_chain.py --seconds 100 --seed 1`` prints one JSON object.  It needs nothing
but the ``ns3`` wheel and its interpreter.

The chain S - R0 - R1 - R2 - D, the rates, RED's parameters and the load are those of
``experiments/configA.yaml``.  What differs, because the simulator differs:

- A point-to-point link delays both directions alike: R2 - D takes 100 ms each way, where the
  experiment adds 200 ms to what D sends.  The round trip is the same.
- A frame has a header of 2 bytes (PPP) and RED counts IP packets, 1000 bytes; the experiment has 14
  bytes of Ethernet in both.  The same rate carries 1.2 % more packets here.
- No queue discipline but RED: the other devices have a plain queue that never fills, the cheapest
  that the simulator has.
- ``Wait`` is off: with it ns-3 drops two thirds as much as Linux at the same average.
- The delayed acknowledgement waits 40 ms, the least of Linux, which adapts it.

Nothing is traced and nothing is captured.

The wheel 3.44.post0 is a release build with logging and assertions compiled in.  ns-3 built without
them is faster; a rate measured here is the wheel's.  ``ns3_logging_compiled_in`` says which it was.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import random
import time
from pathlib import Path
from typing import Any

FLOWS = 100
PORT = 5001
START_SPREAD_S = 2.0
MTU = 1000
MSS = MTU - 40
SOCKET_BUFFER = 1_000_000
ACCESS_RATE = "100Mbps"
BOTTLENECK_RATE = "10Mbps"
#: Rate and delay of one direction of each link, from S to D.
LINKS = (
    (ACCESS_RATE, "0ms"),
    (ACCESS_RATE, "0ms"),
    (BOTTLENECK_RATE, "0ms"),
    (ACCESS_RATE, "100ms"),
)
BOTTLENECK = 2
#: A device's own queue never fills, but below RED it holds one packet: the rest waits in RED.
DEVICE_QUEUE, DEVICE_QUEUE_BELOW_RED = "10000p", "1p"
MIN_TH, MAX_TH, LIMIT = 10_000, 200_000, 500_000
INVERSE_PROBABILITY = 4.0
QUEUE_WEIGHT = 1 / 512


def load_ns3() -> Any:
    """Return the namespace ``ns3``; this parses every header and takes some ten seconds."""
    return importlib.import_module("ns").ns


def set_defaults(ns: Any) -> None:
    """Set TCP as the experiment has it: the profile ``sysctl-2.2`` with SACK."""
    types = {
        "TcpL4Protocol::SocketType": ns.TcpNewReno.GetTypeId(),
        "TcpL4Protocol::RecoveryType": ns.TcpPrrRecovery.GetTypeId(),
    }
    for name, value in types.items():
        ns.Config.SetDefault(f"ns3::{name}", ns.TypeIdValue(value))
    numbers = {
        "TcpSocket::SegmentSize": MSS,
        "TcpSocket::InitialCwnd": 2,
        "TcpSocket::DelAckCount": 2,
        "TcpSocket::SndBufSize": SOCKET_BUFFER,
        "TcpSocket::RcvBufSize": SOCKET_BUFFER,
    }
    for name, number in numbers.items():
        ns.Config.SetDefault(f"ns3::{name}", ns.UintegerValue(number))
    switches = {"Sack": True, "Timestamp": False, "WindowScaling": True, "LimitedTransmit": True}
    for name, on in switches.items():
        ns.Config.SetDefault(f"ns3::TcpSocketBase::{name}", ns.BooleanValue(on))
    times = {
        "TcpSocketBase::MinRto": 200,
        "TcpSocketBase::ClockGranularity": 1,
        "TcpSocket::ConnTimeout": 1000,
        "TcpSocket::DelAckTimeout": 40,
    }
    for name, milliseconds in times.items():
        ns.Config.SetDefault(f"ns3::{name}", ns.TimeValue(ns.MilliSeconds(milliseconds)))


def red_settings(ns: Any) -> dict[str, Any]:
    """Return the attributes of RED, not gentle, without ECN, in bytes."""
    return {
        "MaxSize": ns.QueueSizeValue(ns.QueueSize(f"{LIMIT}B")),
        "MinTh": ns.DoubleValue(MIN_TH),
        "MaxTh": ns.DoubleValue(MAX_TH),
        "LInterm": ns.DoubleValue(INVERSE_PROBABILITY),
        "QW": ns.DoubleValue(QUEUE_WEIGHT),
        "MeanPktSize": ns.UintegerValue(MTU),
        "LinkBandwidth": ns.DataRateValue(ns.DataRate(BOTTLENECK_RATE)),
        "Gentle": ns.BooleanValue(False),
        "Wait": ns.BooleanValue(False),
        "ARED": ns.BooleanValue(False),
        "AdaptMaxP": ns.BooleanValue(False),
        "FengAdaptive": ns.BooleanValue(False),
        "UseEcn": ns.BooleanValue(False),
    }


def connect(ns: Any, nodes: Any) -> tuple[list[Any], list[Any]]:
    """Link the nodes in a chain; return the devices and the addresses of each link."""
    all_devices, all_addresses = [], []
    addresses = ns.Ipv4AddressHelper()
    plain = ns.TrafficControlHelper()
    for index, (rate, delay) in enumerate(LINKS):
        link = ns.PointToPointHelper()
        link.SetDeviceAttribute("DataRate", ns.StringValue(rate))
        link.SetDeviceAttribute("Mtu", ns.UintegerValue(MTU))
        link.SetChannelAttribute("Delay", ns.StringValue(delay))
        link.SetQueue("ns3::DropTailQueue", "MaxSize", ns.StringValue(DEVICE_QUEUE))
        devices = link.Install(nodes.Get(index), nodes.Get(index + 1))
        addresses.SetBase(ns.Ipv4Address(f"10.0.{index}.0"), ns.Ipv4Mask("255.255.255.0"))
        all_addresses.append(addresses.Assign(devices))
        plain.Uninstall(devices)
        all_devices.append(devices)
    return all_devices, all_addresses


def install_red(ns: Any, device: Any) -> Any:
    """Put RED in front of a device; return the queue discipline."""
    own_queue = device.GetObject[ns.PointToPointNetDevice]().GetQueue()
    own_queue.SetMaxSize(ns.QueueSize(DEVICE_QUEUE_BELOW_RED))
    helper = ns.TrafficControlHelper()
    helper.SetRootQueueDisc("ns3::RedQueueDisc")
    for name, value in red_settings(ns).items():
        ns.Config.SetDefault(f"ns3::RedQueueDisc::{name}", value)
    return helper.Install(device).Get(0)


def start_flows(ns: Any, sender: Any, receiver: Any, address: Any, seed: int) -> Any:
    """Install the receiver and the senders, which start at times drawn uniformly; return it."""
    factory = "ns3::TcpSocketFactory"
    anywhere = ns.InetSocketAddress(ns.Ipv4Address.GetAny(), PORT).ConvertTo()
    sinks = ns.PacketSinkHelper(factory, anywhere).Install(receiver)
    sinks.Start(ns.Seconds(0))
    bulk = ns.BulkSendHelper(factory, ns.InetSocketAddress(address, PORT).ConvertTo())
    bulk.SetAttribute("MaxBytes", ns.UintegerValue(0))
    bulk.SetAttribute("SendSize", ns.UintegerValue(MSS))
    starts = random.Random(seed)
    for _ in range(FLOWS):
        bulk.Install(sender).Start(ns.Seconds(starts.uniform(0, START_SPREAD_S)))
    return sinks.Get(0)


def simulate(ns: Any, seconds: float, seed: int) -> dict[str, Any]:
    """Build the chain, run it, and return what arrived and how long ``Simulator::Run`` took."""
    ns.RngSeedManager.SetRun(seed)
    set_defaults(ns)
    nodes = ns.NodeContainer()
    nodes.Create(len(LINKS) + 1)
    ns.InternetStackHelper().Install(nodes)
    devices, addresses = connect(ns, nodes)
    red = install_red(ns, devices[BOTTLENECK].Get(0))
    ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()
    destination = addresses[-1].GetAddress(1)
    sink = start_flows(ns, nodes.Get(0), nodes.Get(len(LINKS)), destination, seed)
    ns.Simulator.Stop(ns.Seconds(seconds))
    started = time.perf_counter()
    ns.Simulator.Run()
    elapsed = time.perf_counter() - started
    statistics = red.GetStats()
    return {
        "simulated_seconds": float(ns.Simulator.Now().GetSeconds()),
        "wall_seconds": elapsed,
        "received_bytes": int(sink.GetObject[ns.PacketSink]().GetTotalRx()),
        "red_dropped_packets": int(statistics.nTotalDroppedPackets),
        "red_received_packets": int(statistics.nTotalReceivedPackets),
    }


def process_age() -> float:
    """Return the seconds since this process was started (Linux counts them in 10 ms)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def main() -> None:
    parser = argparse.ArgumentParser(description="Run configuration A, RED, 100 flows, in ns-3.")
    parser.add_argument("--seconds", type=float, default=100.0, help="simulated seconds")
    parser.add_argument("--seed", type=int, default=1, help="of the starts and of ns-3's streams")
    options = parser.parse_args()
    ns = load_ns3()
    result = simulate(ns, options.seconds, options.seed)
    ns.Simulator.Destroy()
    result["ns3_logging_compiled_in"] = not ns.LogComponent.GetComponentList().empty()
    result["ns3_version"] = importlib.metadata.version("ns3")
    result["process_seconds"] = process_age()
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
