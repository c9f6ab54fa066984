"""What somebody else's file may say reaches neither a shell nor a place outside of the results."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from ruamel.yaml import YAML
from run_maker import make_runs
from spec_strategies import experiments

import tcpf_lab
from tcpf_lab.base.errors import LabError, SpecError, TestbedError
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import BATCH_PROGRAMS, Command, Start
from tcpf_lab.results.layout import ExperimentFiles
from tcpf_lab.spec.load import apply_overrides, each, load_any, members, parse
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.fake import FakeTestbed
from tcpf_lab.testbed.inventory import Inventory, load_inventory
from tcpf_lab.testbed.ssh import files as ssh_files
from tcpf_lab.testbed.ssh import hosts
from tcpf_lab.testbed.ssh.steps import Placement, Translator, groups
from tcpf_lab.testbed.uml import guest_plan

PACKAGE = Path(tcpf_lab.__file__).parent
#: Hostile names, and good files to put them into; the file's head says more.
_DATA = YAML(typ="safe").load(Path(__file__).with_name("hostile.yaml"))
HOSTILE: dict[str, str] = {**_DATA["names"], "long": "x" * 300}
SPEC, HOSTS, COLLECTION = (_DATA[kind] for kind in ("experiment", "inventory", "collection"))
Put = Callable[[dict[str, Any], str], None]


def key(section: dict[str, Any], old: str, new: str) -> None:
    section[new] = section.pop(old)


#: Where an experiment's strings become names, words or paths.
PLACES: dict[str, Put] = {
    "name": lambda d, s: d.update(name=s),
    "case": lambda d, s: key(d["cases"], "A", s),
    "words": lambda d, s: d["cases"]["A"]["queue"].update(words=s),
    "kind": lambda d, s: d["cases"]["A"]["queue"].update(kind=s),
    "marker": lambda d, s: d["cases"]["A"].update(marker=s),
    "source": lambda d, s: d["cases"]["A"].update(background={s: {"kind": "cbr", "share": 0.1}}),
    "code point": lambda d, s: d["cases"]["A"].update(
        background={"ef": {"kind": "cbr", "share": 0.1, "dscp": s}}
    ),
    "congestion": lambda d, s: d["tcp"].update(congestion=s),
    "profile": lambda d, s: d["tcp"].update(profile=s),
    "generator": lambda d, s: d.update(traffic={"generator": s}),
    "rate": lambda d, s: d["topology"]["chain"].update(bottleneck=s),
    "config": lambda d, s: d.update(reference={"config": s}),
    "paper": lambda d, s: d.update(reference={"paper": s}),
    "chosen case": lambda d, s: d["matrix"].update(case=s),
    "axis": lambda d, s: d["matrix"].update({f"queue.{s}": [1, 2]}),
    "value of an axis": lambda d, s: d["matrix"].update({"tcp.congestion": [s, "reno"]}),
}
#: Where hosts' strings become words of ssh, of a shell or of ip.
HOST_PLACES: dict[str, Put] = {
    "name": lambda d, s: d.update(name=s),
    "host": lambda d, s: key(d["hosts"], "ends", s),
    "address": lambda d, s: d["hosts"]["ends"].update(address=s),
    "user": lambda d, s: d["hosts"]["ends"].update(user=s),
    "control": lambda d, s: d["hosts"]["ends"].update(control=s),
    "kernel": lambda d, s: d["hosts"]["ends"].update(kernel=s),
    "interface": lambda d, s: d["hosts"]["ends"]["interfaces"].update({"S-R0": s}),
    "link": lambda d, s: key(d["hosts"]["ends"]["interfaces"], "S-R0", s),
    "role": lambda d, s: d["hosts"]["ends"].update(roles=["D", s]),
    "state directory": lambda d, s: d.update(state_directory=s),
    "programs": lambda d, s: d.update(programs=s),
    "rate of a link": lambda d, s: d.update(links={"rates": {s: "1 Gbit"}}),
}
#: What a kernel lets an interface be called, and no shell ever reads.
INTERFACES = {"semicolon", "command", "variable", "pipe", "background", "redirection", "epoch"} | {
    *("backslash", "glob", "home", "bidi", "wide", "backticks", "hidden"),
}
#: Words that say what a queue does and name nothing: one word to whoever reads them.
WORDS = {"parent", "parent alone", "absolute", "hidden", "directory", "option"}


def written(data: dict[str, Any], put: Put, text: str, path: Path) -> Path:
    changed = json.loads(json.dumps(data))
    put(changed, text)
    path.write_text(json.dumps(changed), encoding="utf-8")
    return path


def assert_refused(caught: pytest.ExceptionInfo[LabError], path: Path) -> None:
    for problem in each(caught.value):
        assert re.fullmatch(rf"{re.escape(str(path))}:\d+", problem.where)
    assert str(caught.value).replace("\n", "").isprintable()


@pytest.mark.parametrize("place", PLACES)
def test_no_hostile_name_of_an_experiment_is_read(place: str, tmp_path: Path) -> None:
    for text in HOSTILE.values():
        path = written(SPEC, PLACES[place], text, tmp_path / "x.yaml")
        with pytest.raises(SpecError) as caught:
            load_any(path)
        assert_refused(caught, path)


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_word_of_tc_is_one_word_of_the_command_or_refused(what: str) -> None:
    data = json.loads(json.dumps(SPEC))
    words = f"fq_codel limit {HOSTILE[what]}"
    data["cases"]["A"]["queue"]["words"] = words
    if what not in WORDS:
        with pytest.raises(SpecError, match="words"):
            parse(json.dumps(data), "x")
        return
    (run,) = expand(parse(json.dumps(data), "x").on("native"))
    assert run.id == "a-flows1-seed1"
    plan = compose(run)
    (installed,) = [s for s in plan.steps if isinstance(s, Command) and "fq_codel" in s.argv]
    assert installed.argv[-3:] == tuple(words.split(" "))
    assert installed.argv[:4] == ("tc", "qdisc", "add", "dev")
    assert guest_words(plan)


def test_the_files_that_are_made_hostile_are_good_without_that(tmp_path: Path) -> None:
    assert load_any(written(SPEC, PLACES["name"], "x", tmp_path / "x.yaml")).name == "x"
    assert load_inventory(written(HOSTS, HOST_PLACES["name"], "two", tmp_path / "two.yaml"))


@pytest.mark.parametrize("place", HOST_PLACES)
def test_no_hostile_word_of_an_inventory_is_read(place: str, tmp_path: Path) -> None:
    # A state directory is absolute, and belongs to the user's own hosts.
    allowed = {"interface": INTERFACES, "control": INTERFACES, "state directory": {"absolute"}}
    for what, text in HOSTILE.items():
        path = written(HOSTS, HOST_PLACES[place], text, tmp_path / "two.yaml")
        if what in allowed.get(place, ()):
            load_inventory(path)
            continue
        with pytest.raises(SpecError) as caught:
            load_inventory(path)
        assert_refused(caught, path)


def test_a_member_of_a_collection_is_a_file_or_refused(tmp_path: Path) -> None:
    """Whatever it is called: a name that no file can have, a pipe, a device, a directory."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a").mkdir()
    fixed = ("./pipe", "/dev/zero", "./a", "a/" + "y" * 5000)
    # Of a bare name every shipped file is read, to tell which was meant.
    bare = (HOSTILE["null"], HOSTILE["option"])
    for text in (*(f"a/{text}" for text in HOSTILE.values()), *fixed, *bare):
        path = written(COLLECTION, put_member, text, tmp_path / "x.yaml")
        with pytest.raises(LabError):
            members(load_any(path), path)


def put_member(data: dict[str, Any], text: str) -> None:
    data["experiments"][0]["spec"] = text


@pytest.mark.parametrize("place", ["name", "factor", "level", "only"])
def test_names_that_a_collection_makes_are_safe_or_refused(place: str, tmp_path: Path) -> None:
    for text in HOSTILE.values():

        def put(data: dict[str, Any], text: str) -> None:
            inner = data["experiments"][0] if place in ("factor", "level") else data
            inner[place] = {f"queue.{text}": 1} if place == "only" else text

        path = written(COLLECTION, put, text, tmp_path / "x.yaml")
        try:
            collection = load_any(path)
            levels = members(collection, path)
        except LabError:
            continue
        for level in levels:
            assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+-]{0,59}", level.experiment.name)


@pytest.mark.parametrize("what", HOSTILE)
def test_options_that_change_an_experiment_are_as_strict(what: str) -> None:
    experiment = parse(json.dumps(SPEC), "x")
    for setting in (
        f"name={json.dumps(HOSTILE[what])}",
        f"cases.A.queue.words={json.dumps(HOSTILE[what])}",
        f"{HOSTILE[what]}=1",
        f"cases.{HOSTILE[what]}.queue.limit=1 MB",
    ):
        with pytest.raises(LabError):
            apply_overrides(experiment, [setting])


FEW = settings(
    max_examples=10,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@FEW
@given(experiments())
def test_every_word_of_every_plan_is_one_word_wherever_it_is_read(data: dict[str, Any]) -> None:
    """By a shell from ``plan.txt``, by the guest, by iproute2's batches, and by hosts' agents."""
    run = expand(parse(json.dumps(data), "x").on("native"))[0]
    plan = compose(run)
    started = [step for step in plan.steps if isinstance(step, Start | Command)]
    assert shell_words([shlex.join(step.argv) for step in started]) == [
        list(step.argv) for step in started
    ]
    assert all(shlex.join(step.argv) in str(step) for step in started)
    assert guest_words(plan) == [list(step.argv) for step in started if not batched(step)]
    for step in started:
        for path in (step.output, getattr(step, "errors", None)):
            assert path is None or re.fullmatch(r"(stats|log|pcap)/[A-Za-z0-9.-]+", path)
    place = ExperimentFiles(Path("results"), run.experiment.name, "uml")
    for root in (place.root, place.run(run.id).root, place.partial(run.id).root):
        assert root.parts[0] == "results"
        assert len(root.parts) in (3, 4)
        assert not {".", "..", ""} & {*root.parts}


def shell_words(lines: list[str]) -> list[list[str]]:
    """Let a shell take lines apart, with nothing of it carried out."""
    script = "".join(f"printf '%s\\0' {line}; printf '\\n\\0'\n" for line in lines)
    said = subprocess.run(
        ["/bin/sh"], input=script, capture_output=True, text=True, check=True, env={"PATH": ""}
    )
    assert said.stderr == ""
    found: list[list[str]] = [[]]
    for word in said.stdout.split("\0"):
        if word == "\n":
            found.append([])
        else:
            found[-1].append(word)
    return found[:-1]


def batched(step: Start | Command) -> bool:
    return isinstance(step, Command) and step.argv[0] in BATCH_PROGRAMS and step.output is None


def guest_words(plan: Plan) -> list[list[str]]:
    """Take the guest's instructions apart as ``kernel/uml/guest_plan.c`` does."""
    found = []
    lines = iter(guest_plan.render(plan).split("\n"))
    for line in lines:
        word, *rest = line.split("\t")
        if word == "batch":
            for _ in range(int(rest[1])):
                inner = next(lines)
                assert shlex.split(inner, comments=True) == inner.split(" ")
        elif word in ("run", "start"):
            words = rest[2:] if word == "run" else rest[4:]
            if words[:2] == [f"{guest_plan.BIN}/tcpf-guest", "at"]:
                words = words[4:]
            found.append([text.replace(guest_plan.BIN, "{programs}") for text in words])
    return found


@pytest.mark.parametrize("word", ["a b", "a\tb", "", 'a"b', "a'b", "a#b", "a\\b", "a\nb"])
def test_a_word_that_a_batch_would_take_apart_ends_the_rendering(word: str) -> None:
    from tcpf_lab.plan.step import Phase

    plan = Plan((Phase("x", (Command("S", ("tc", "qdisc", word)),)),), {}, (0.0, 1.0), ())
    with pytest.raises(ValueError, match="not a word of"):
        guest_plan.render(plan)


@FEW
@given(experiments())
def test_hosts_are_asked_for_the_words_of_the_plan_as_lists(data: dict[str, Any]) -> None:
    """No request has a command as one text, so that no host could take it apart otherwise."""
    chain = {"chain": {"access": "100 Gbit", "bottleneck": "1 Mbit", "delay": "0 s"}}
    for case in data["cases"].values():
        case.pop("background", None)
    plan = compose(expand(parse(json.dumps({**data, "topology": chain}), "x").on("native"))[0])
    inventory = Inventory.model_validate(
        json.loads(json.dumps(HOSTS), object_hook=lambda d: {k: tuple_or(v) for k, v in d.items()})
    )
    names = tuple(inventory.hosts)
    placement = Placement(
        inventory, {n: n for n in names}, dict.fromkeys(names), dict.fromkeys(names, "/p")
    )
    translator = Translator(plan, placement)
    sent: list[Any] = []
    for group in groups(plan):
        if group.steps[0].__class__.__name__ == "AgreeEpoch":
            continue
        asked = translator.requests(group, dict.fromkeys(names, 10**18))
        sent += [request.arguments for several in asked.values() for request in several]
    commands = [words for arguments in sent for words in lists_of_words(arguments)]
    planned = [step.argv for step in plan.steps if isinstance(step, Start | Command)]
    assert len(commands) == len(planned)
    assert all(isinstance(word, str) for words in commands for word in words)


def tuple_or(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def lists_of_words(arguments: Any) -> Iterator[list[str]]:
    if "argv" in arguments:
        yield arguments["argv"]
    yield from (start["argv"] for start in arguments.get("starts", ()))
    yield from arguments.get("lines", ())


class Channel:
    """Runs what SSH would run there by a shell of this machine, as sshd does."""

    def __init__(self) -> None:
        self.said = ""

    def settimeout(self, silence: float | None) -> None:
        pass

    def exec_command(self, line: str) -> None:
        self.said = subprocess.run(
            ["sh", "-c", line], capture_output=True, check=False
        ).stdout.decode()


@pytest.mark.parametrize("prefix", [(), ("env", "--")])
def test_words_of_a_command_arrive_at_a_host_as_they_are(
    prefix: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = Channel()
    host = hosts.Host.__new__(hosts.Host)
    connection = type("Connection", (), {"create_session": lambda self: channel})()
    monkeypatch.setattr(host, "_connection", connection, raising=False)
    monkeypatch.setattr(host, "_prefix", prefix, raising=False)
    monkeypatch.setattr(hosts, "Process", lambda channel: channel)
    words = [word for text in HOSTILE.values() if "\0" not in text for word in (text, "b")]
    host.start(("printf", "%s\\0", "a", *words))
    assert channel.said.split("\0")[:-1] == ["a", *words]


def modules_with(words: str) -> Iterator[tuple[Path, Iterator[ast.AST]]]:
    """Yield each module of the package in whose text the pattern occurs, with its nodes."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(words, text):
            yield path, ast.walk(ast.parse(text))


def shell_scripts() -> Iterator[tuple[str, ast.expr]]:
    """Yield every script that the package gives to ``sh -c``, with where it does."""
    for path, nodes in modules_with(r"\"sh\""):
        for node in nodes:
            if isinstance(node, ast.Tuple | ast.List):
                words = [e.value if isinstance(e, ast.Constant) else None for e in node.elts]
                for index in range(len(words) - 2):
                    if words[index] == "sh" and words[index + 1] == "-c":
                        yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node.elts[index + 2]


def test_every_script_for_a_shell_is_a_constant_whose_arguments_are_quoted() -> None:
    """A host's shell gets what varies as ``$1`` and so on, in double quotes."""
    scripts = dict(shell_scripts())
    assert len(scripts) >= 9
    for where, script in scripts.items():
        text = ast.unparse(script)
        if isinstance(script, ast.Name):
            source = (PACKAGE / where.partition(":")[0]).read_text(encoding="utf-8")
            file = re.search(rf"^{script.id} = (?:files\.)?script\(\"(\w+)\"\)$", source, re.M)
            found = file or re.search(
                rf"^ *{script.id} = (.*?(?:\"\"\"|'\n|\n    \)))", source, re.M | re.S
            )
            assert found, f"{where}: {script.id} is no constant of its module"
            text = ssh_files.script(file[1]) if file else found[1]
            # What is put in is a constant of ours, in capital letters, or one of `_units`.
            for inner in re.findall(r"\{([A-Za-z_]+)\}", text) if text.startswith("f") else ():
                assert inner.isupper(), f"{where}: {inner}"
        unquoted = re.findall(r"(?<![\"\w/=-])(?<!route get \")\$[1-9@*]", text)
        loops = re.findall(r"for name in \$[2-5];", text)
        assert len(unquoted) == len(loops), f"{where}: {unquoted}"
        assert not loops or "set -f" in text, f"{where}: a star would be a pattern"


def test_nothing_is_given_to_a_shell_in_any_other_way() -> None:
    forbidden = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"}
    for path, nodes in modules_with("|".join([*forbidden, "shell"])):
        for node in nodes:
            if isinstance(node, ast.Call):
                assert not any(word.arg == "shell" for word in node.keywords), path
                called = node.func
                if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                    assert called.value.id not in ("os", "subprocess", "asyncio") or (
                        called.attr not in forbidden
                    ), f"{path}:{node.lineno}"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "a\nb"])
def test_a_host_cannot_make_us_write_elsewhere(name: str) -> None:
    host = type("Host", (), {"name": "r1"})()
    listed = f"{'0' * 64}  {name}\n"
    reply = type("Reply", (), {"text": listed})()
    with pytest.raises(TestbedError, match="unexpected file name"):
        ssh_files._read_sums(host, reply)


def test_runs_of_a_hostile_but_allowed_experiment_stay_below_the_results(
    recorded: Path, tmp_path: Path
) -> None:
    """Names of all allowed characters, settings too: every file is where it belongs."""
    text = (recorded / "experiment.yaml").read_text(encoding="utf-8")
    experiment = parse(text, "x")
    (case,) = experiment.cases.values()
    named = experiment.model_copy(
        update={"name": "CON--+_-", "title": "$(reboot) `id` '; rm -rf /"}
    )
    data = {"C-(o) +x (": case}
    changed = named.model_copy(
        update={
            "cases": data,
            "matrix": experiment.matrix.model_copy(update={"case": tuple(data), "seed": (1,)}),
        }
    )
    results = tmp_path / "there" / "results"
    make_runs(results, FakeTestbed(recorded), changed)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert {path.relative_to(tmp_path).parts[:2] for path in files} == {("there", "results")}
    tops = {path.relative_to(results).parts[:3] for path in files}
    assert tops == {("CON--+_-", "fake", "c-o+x-flows3-seed1")}
