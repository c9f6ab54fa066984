"""The entry script, in a copy with stand-ins for everything that would change the system."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tcpf_lab

LAB = Path(tcpf_lab.__file__).parent.parent / "lab"
#: What the script itself calls; everything else is a stand-in or missing.
BASICS = (
    *("cat", "dirname", "env", "find", "grep", "mkdir", "readlink", "rm", "sha256sum", "sh"),
    *("sort", "tail", "touch", "tr", "xargs"),
)
RECORD = '#!/bin/sh\nfor word; do echo "$word"; done >> "{calls}"\n'


class Checkout:
    """A directory with a space in its name that holds ``lab`` and what it looks at."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "a checkout"
        self.tools = root / "tools"
        (self.home / ".venv/bin").mkdir(parents=True)
        (self.home / "trace").mkdir()
        self.tools.mkdir()
        self.script = self.home / "lab"
        shutil.copy(LAB, self.script)
        (self.home / "requirements.txt").write_text("numpy==1\n")
        (self.home / "pyproject.toml").write_text("[project]\n")
        for tool in BASICS:
            (self.tools / tool).symlink_to(shutil.which(tool) or "/bin/false")
        self.stub("uname", "echo Linux x86_64")
        self.stub("id", "echo 0")
        self.record(".venv/bin/python", self.home / ".venv/bin/python")
        self.record(".venv/bin/tcpf-lab", self.home / ".venv/bin/tcpf-lab")
        self.stub("python3", "exit 0")
        self.stub("cargo", "echo cargo 1.95.0")

    def stub(self, name: str, body: str) -> None:
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def record(self, name: str, path: Path | None = None) -> None:
        """Make a program that only writes down what it was called with."""
        target = path or self.tools / name
        target.write_text(RECORD.format(calls=self.calls_file(name)))
        target.chmod(0o755)

    def calls_file(self, name: str) -> Path:
        return self.root / f"calls-{name.replace('/', '-')}"

    def calls(self, name: str) -> list[str]:
        path = self.calls_file(name)
        return path.read_text().splitlines() if path.exists() else []

    def have_everything(self) -> None:
        """Let no package be missing: `needs` and `test_needs` name programs that exist."""
        text = self.script.read_text()
        text = re.sub("needs='[^']*'", "needs='sh sh'", text)
        self.script.write_text(text.replace("openssh-server /usr/sbin/sshd", "sh sh"))

    def run(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(self.script), *words],
            cwd=cwd or self.root,
            env={"PATH": str(self.tools), "HOME": str(self.root)},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_script_is_accepted_by_every_posix_shell(shell: str) -> None:
    path = shutil.which(shell)
    assert path or shell != "sh"
    if path:
        subprocess.run([path, "-n", str(LAB)], check=True)


def test_script_is_executable_and_asks_for_plain_sh() -> None:
    assert os.access(LAB, os.X_OK)
    assert LAB.read_text().startswith("#!/bin/sh\n")


def test_directory_as_standard_input_is_refused_with_what_to_type(checkout: Checkout) -> None:
    script = f'exec sh "{checkout.script}" analyze - < /'
    reply = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert reply.returncode == 2
    assert reply.stderr == (
        "lab: standard input is a directory (name it instead: ./lab analyze DIR)\n"
    )


def test_other_words_go_to_tcpf_lab_unchanged(checkout: Checkout) -> None:
    checkout.have_everything()
    reply = checkout.run("run", "my spec.yaml", "--set", "a=$b *")
    assert reply.returncode == 0
    assert checkout.calls(".venv/bin/tcpf-lab") == ["run", "my spec.yaml", "--set", "a=$b *"]
    assert reply.stdout == ""


def test_script_works_from_elsewhere_and_through_a_link(checkout: Checkout) -> None:
    checkout.have_everything()
    elsewhere = checkout.root / "elsewhere"
    elsewhere.mkdir()
    link = elsewhere / "link"
    link.symlink_to(checkout.script)
    checkout.script = link
    assert checkout.run("status", cwd=elsewhere).returncode == 0
    assert checkout.calls(".venv/bin/tcpf-lab") == ["status"]


def test_python_packages_are_installed_once_until_the_list_changes(checkout: Checkout) -> None:
    checkout.have_everything()
    assert checkout.run("plan").returncode == 0
    first = checkout.calls(".venv/bin/python")
    assert "--require-hashes" in first
    assert "--no-deps" in first
    assert "--editable" in first
    checkout.run("plan")
    assert checkout.calls(".venv/bin/python") == first
    (checkout.home / "requirements.txt").write_text("numpy==2\n")
    checkout.run("plan")
    assert len(checkout.calls(".venv/bin/python")) == 2 * len(first)


def test_failed_pip_is_tried_again_next_time(checkout: Checkout) -> None:
    checkout.have_everything()
    python = checkout.home / ".venv/bin/python"
    python.write_text('#!/bin/sh\ncase "$*" in *install*) echo no route >&2; exit 1 ;; esac\n')
    reply = checkout.run("plan")
    assert reply.returncode == 1
    assert "no route" in reply.stderr
    assert "lab: pip failed" in reply.stderr
    assert checkout.run("plan").returncode == 1
    assert checkout.calls(".venv/bin/tcpf-lab") == []


def test_environment_that_lost_its_pip_is_made_anew(checkout: Checkout) -> None:
    checkout.have_everything()
    (checkout.home / ".venv/bin/python").unlink()
    checkout.stub(
        "python3",
        f'case "$*" in *venv*) echo "$@" >> {checkout.calls_file("venv")}\n'
        f'/bin/cp "{checkout.tools}/new-python" "{checkout.home}/.venv/bin/python" ;; esac',
    )
    checkout.record("new-python")
    assert checkout.run("plan").returncode == 0
    assert checkout.calls("venv") == [f"-m venv --clear {checkout.home}/.venv"]
    assert "--editable" in checkout.calls("new-python")


def test_missing_packages_without_apt_are_named(checkout: Checkout) -> None:
    reply = checkout.run("plan")
    assert reply.returncode == 1
    assert "missing: make gcc " in reply.stderr
    assert "there is no apt-get here" in reply.stderr


def test_missing_packages_without_sudo_give_the_line_to_type(checkout: Checkout) -> None:
    checkout.record("apt-get")
    checkout.stub("id", "echo 1000")
    reply = checkout.run("plan")
    assert reply.returncode == 1
    assert "there is no sudo here" in reply.stderr
    assert "apt-get install make gcc " in reply.stderr
    assert checkout.calls("apt-get") == []


def test_only_what_is_missing_is_installed_in_one_call(checkout: Checkout) -> None:
    checkout.record("apt-get")
    for present in ("gcc", "bison", "iperf3"):
        checkout.stub(present, "exit 0")
    assert checkout.run("plan").returncode == 0
    calls = checkout.calls("apt-get")
    assert calls.count("update") == 1
    assert calls.count("install") == 1
    installed = calls[calls.index("install") :]
    assert {"make", "flex"} <= set(installed)
    assert not {"gcc", "bison", "iperf3", "python3-venv"} & set(installed)


def test_ordinary_user_installs_through_sudo(checkout: Checkout) -> None:
    checkout.record("sudo")
    checkout.record("apt-get")
    checkout.stub("id", "echo 1000")
    assert checkout.run("plan").returncode == 0
    assert checkout.calls("sudo")[:3] == ["apt-get", "update", "-q"]
    assert checkout.calls("apt-get") == []


def test_failed_apt_says_what_to_type(checkout: Checkout) -> None:
    checkout.stub("apt-get", "echo 'cannot resolve' >&2; exit 100")
    reply = checkout.run("plan")
    assert reply.returncode == 1
    assert "cannot resolve" in reply.stderr
    assert "lab: apt-get failed" in reply.stderr
    assert "apt-get install make" in reply.stderr


def test_other_machines_are_refused_at_once(checkout: Checkout) -> None:
    checkout.stub("uname", "echo Darwin arm64")
    reply = checkout.run("run", "x.yaml")
    assert reply.returncode == 1
    assert "runs on Linux x86_64, this is Darwin arm64" in reply.stderr


def test_old_python_is_named(checkout: Checkout) -> None:
    checkout.have_everything()
    checkout.stub("python3", "case $1 in --version) echo Python 3.9.2 ;; *) exit 1 ;; esac")
    reply = checkout.run("plan")
    assert reply.returncode == 1
    assert "Python 3.11 or newer is needed, this is Python 3.9.2" in reply.stderr


def test_setup_builds_the_kernel_only_if_there_is_none(checkout: Checkout) -> None:
    checkout.have_everything()
    assert checkout.run("setup").returncode == 0
    assert checkout.calls(".venv/bin/tcpf-lab") == ["kernel", "path"]
    program = checkout.home / ".venv/bin/tcpf-lab"
    program.write_text(program.read_text() + '[ "$2" != path ]\n')
    assert checkout.run("setup").returncode == 0
    assert checkout.calls(".venv/bin/tcpf-lab")[2:] == ["kernel", "path", "kernel", "build"]


def test_what_only_tests_need_is_installed_for_them_alone(checkout: Checkout) -> None:
    checkout.have_everything()
    text = checkout.script.read_text()
    missing = "test_needs='a-package /nowhere/a\nanother /nowhere/b'"
    checkout.script.write_text(re.sub("test_needs='[^']*'", missing, text))
    checkout.record("apt-get")
    assert checkout.run("setup").returncode == 0
    assert checkout.calls("apt-get") == []
    checkout.run("test")
    assert checkout.calls("apt-get")[-2:] == ["a-package", "another"]


@pytest.mark.parametrize(
    ("tier", "builds"), [([], [[]]), (["--full"], [["--variant", "unlogged"], []])]
)
def test_a_tier_builds_the_kernels_that_it_needs_and_no_other(
    checkout: Checkout, tier: list[str], builds: list[list[str]]
) -> None:
    checkout.have_everything()
    checkout.stub("gcc", "exit 0")
    assert checkout.run("test", *tier, "-k", "mine").returncode == 0
    calls = checkout.calls(".venv/bin/tcpf-lab")
    assert calls == [word for variant in builds for word in ("kernel", "path", *variant)]
    assert checkout.calls(".venv/bin/python")[-2:] == ["-k", "mine"]


def test_a_part_of_the_nightly_tests_that_has_passed_is_not_repeated_at_its_commit(
    checkout: Checkout,
) -> None:
    checkout.have_everything()
    checkout.stub("git", "echo 0123456789ab")
    python = checkout.home / ".venv/bin/python"
    python.write_text('#!/bin/sh\ncase "$*" in *faults*) echo found one; exit 1 ;; esac\n')
    reply = checkout.run("test", "--nightly", "accuracy", "faults")
    assert reply.returncode == 1
    assert "faults: failed: found one" in reply.stderr
    checkout.record(".venv/bin/python", python)
    assert checkout.run("test", "--nightly", "accuracy", "faults").returncode == 0
    assert checkout.calls(".venv/bin/python")[-2:] == ["-m", "tools.faults"]
    assert "tools.accuracy" not in checkout.calls(".venv/bin/python")


def test_failed_kernel_build_ends_the_script(checkout: Checkout) -> None:
    checkout.have_everything()
    (checkout.home / ".venv/bin/tcpf-lab").write_text("#!/bin/sh\nexit 1\n")
    reply = checkout.run("setup")
    assert reply.returncode == 1
    assert "everything is installed" not in reply.stderr


def test_notebooks_open_where_they_are(checkout: Checkout) -> None:
    checkout.have_everything()
    (checkout.home / "notebooks").mkdir()
    reply = checkout.run("notebooks", "--no-browser")
    assert reply.returncode == 0, reply.stderr
    calls = checkout.calls(".venv/bin/python")
    assert calls[-4:] == ["-m", "jupyterlab", "--allow-root", "--no-browser"]
    assert str(checkout.home / "requirements-notebooks.txt") not in calls  # it is there already
    assert checkout.calls(".venv/bin/tcpf-lab") == ["kernel", "path"]


def test_fuzzing_begins_once_its_package_is_there(checkout: Checkout) -> None:
    checkout.have_everything()
    reply = checkout.run("fuzz", "3")
    assert reply.returncode == 0, reply.stderr
    assert checkout.calls(".venv/bin/python")[-3:] == ["-m", "tools.fuzz", "3"]


def test_jupyterlab_is_installed_for_notebooks_alone(checkout: Checkout) -> None:
    checkout.have_everything()
    (checkout.home / "notebooks").mkdir()
    python = checkout.home / ".venv/bin/python"
    python.write_text(
        python.read_text()
        + "case $2 in *jupyterlab*find_spec*|*find_spec*jupyterlab*) exit 1 ;; esac\n"
    )
    assert checkout.run("setup").returncode == 0
    assert str(checkout.home / "requirements-notebooks.txt") not in checkout.calls(
        ".venv/bin/python"
    )
    reply = checkout.run("notebooks")
    assert "installing JupyterLab" in reply.stderr
    assert str(checkout.home / "requirements-notebooks.txt") in checkout.calls(".venv/bin/python")


# What continuous integration reads fits the schemas of those that read it.

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        (".github/workflows/ci.yml", "vendor.github-workflows"),
        (".gitlab-ci.yml", "vendor.gitlab-ci"),
    ],
)
def test_the_file_fits_its_schema(path: str, schema: str) -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(ROOT / path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_actions_are_pinned_and_may_only_read() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    actions = re.findall(r"uses: (\S+)", text)
    assert actions
    assert [a for a in actions if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", a)] == []
    assert "\npermissions:\n  contents: read\n" in text
