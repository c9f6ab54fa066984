"""The programs that make traffic, on the host that runs them: built there, or here and sent."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tcpf_lab.base import shipped
from tcpf_lab.base.errors import KernelBuildError, TestbedError
from tcpf_lab.testbed.ssh import files as ssh_files
from tcpf_lab.testbed.ssh import hosts, modules
from tcpf_lab.testbed.ssh.hosts import Host, run
from tcpf_lab.testbed.uml.recipe import PROGRAM_FLAGS, TRAFFIC_PROGRAMS


def sources() -> dict[str, bytes]:
    """Read the sources of all of them, by name below ``kernel``."""
    names = (name for files in TRAFFIC_PROGRAMS.values() for name in files)
    return ssh_files.tree(shipped.directory("kernel"), dict.fromkeys(names))


def source_hash() -> str:
    """Identify the sources by names and contents."""
    return hashlib.sha256(ssh_files.pack(sources())).hexdigest()


def provide(host: Host, machine: str, state: str, testbed: str, *, build: bool) -> str:
    """Give ``host`` the programs, built there or here; return their directory.

    Parameters
    ----------
    host : Host
        Where they are needed.
    machine : str
        What ``uname -m`` prints there.
    state : str
        The state directory on the host.
    testbed : str
        The testbed's name, for messages.
    build : bool
        Whether the host's own compiler makes them.

    Raises
    ------
    TestbedError
        If they cannot be built or sent.
    """
    files = sources()
    how = "host" if build else f"here {' '.join(PROGRAM_FLAGS)}"
    words = f"{hashlib.sha256(ssh_files.pack(files)).hexdigest()} {how} {machine}"
    name = hashlib.sha256(words.encode()).hexdigest()[:16]
    directory = f"{state}/programs/{name}"
    if not build:
        for program, content in _compiled_here(host, machine, name).items():
            ssh_files.put(host, content, f"{directory}/{program}", "0755")
    elif run(host, ("test", "-d", directory)).status != 0:
        _compile_there(host, files, directory, testbed)
    return directory


def _compile_there(host: Host, files: Mapping[str, bytes], directory: str, testbed: str) -> None:
    workshop = f"{directory}.build"
    ssh_files.put_tree(host, files, workshop)
    flags = tuple(flag for flag in PROGRAM_FLAGS if flag != "-static")
    commands = [("gcc", *flags, "-o", f"out/{name}", *parts) for name, parts in _units().items()]
    script = " && ".join(
        [
            'cd "$1"',
            "rm -rf out",
            "mkdir out",
            *map(" ".join, commands),
            'mv out "$2"',
            'rm -rf "$1"',
        ]
    )
    reply = run(
        host,
        ("sh", "-c", script, "sh", workshop, directory),
        silence=modules.BUILD_SILENCE_S,
    )
    if reply.status != 0:
        run(host, ("rm", "-rf", workshop))
        fault = hosts.failed(
            f"host {host.name}",
            testbed,
            "the build of the traffic programs",
            reply.status,
            f"{reply.text}\n{reply.errors}",
        )
        hint = "on the host: apt-get install gcc libc6-dev; or `programs: push` in the inventory"
        raise TestbedError(fault.message, where=fault.where, hint=hint)


def _compiled_here(host: Host, machine: str, name: str) -> dict[str, bytes]:
    if machine != os.uname().machine:
        raise TestbedError(
            f"it is {machine}, this machine {os.uname().machine}: programs built here do not run",
            where=f"host {host.name}",
            hint="`programs: build` in the inventory",
        )
    kept = modules.cache() / name
    if not kept.is_dir():
        root = shipped.directory("kernel")
        modules.keep({each: _compile(root, each) for each in TRAFFIC_PROGRAMS}, kept)
    return {each: (kept / each).read_bytes() for each in TRAFFIC_PROGRAMS}


def _compile(root: Path, program: str) -> bytes:
    compiler = shutil.which("gcc")
    if compiler is None:
        raise KernelBuildError("no gcc", hint="apt-get install gcc libc6-dev")
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory) / program
        units = [str(root / name) for name in _units()[program]]
        command = [compiler, *PROGRAM_FLAGS, "-o", str(result), *units]
        reply = subprocess.run(command, capture_output=True, text=True, check=False)
        if reply.returncode != 0:
            said = hosts.tail(reply.stderr)
            raise KernelBuildError(f"{program} does not compile:{said}", where=units[0])
        return result.read_bytes()


def _units() -> dict[str, tuple[str, ...]]:
    """Name what the compiler is given for each program: no headers."""
    return {
        program: tuple(name for name in files if name.endswith(".c"))
        for program, files in TRAFFIC_PROGRAMS.items()
    }
