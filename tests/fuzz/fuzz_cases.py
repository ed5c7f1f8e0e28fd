"""A case as plain data, drawn from a run's seed and its number: what is asked of which entry point.

```
{"entry": "cli", "command": "train", "scenario": {…}, "set": ["plan.tp=x"], "as": "yaml"}
{"entry": "cli", "arguments": ["import", "config.json", "--json"], "files": {"config.json": "…"}}
{"entry": "mcp", "tool": "fit", "arguments": {…}}          {"entry": "studio", "method": "POST", "path": …, "body": "…"}
```

Scenarios follow from the records of the commands and from the schema, so that a new command, section or field is asked
for without a line here. Each field has its turn: case number i changes field i of a shuffled list.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from random import Random
from typing import Any

import fuzz_files
import fuzz_inputs as inputs
import fuzz_mutations as mutations
import fuzz_schema as schema
import yaml

ENTRIES = {"cli": 30, "python": 22, "batch": 12, "mcp": 14, "studio": 14, "sweep": 8}
"""How often each entry point is asked."""
SLOW = frozenset({"advise"})
"""Commands that answer in seconds: one case in thirty of theirs stays."""
Case = dict[str, Any]


@cache
def commands() -> tuple[str, ...]:
    """Commands that take one scenario."""
    from windtunnel.commands import COMMANDS

    return tuple(id for id, command in COMMANDS.items() if command.scenarios == 1)


def asked(id: str, entry: str) -> bool:
    """Whether an entry point takes a command by name."""
    from windtunnel.commands import COMMANDS

    return entry in ("python", "studio") or not COMMANDS.get(id).part_of


@cache
def _base(id: str) -> str:
    """A small scenario of a command, as JSON: its record's own example of what it needs, on one small node."""
    from windtunnel.commands import COMMANDS

    needed = yaml.safe_load(COMMANDS.get(id).snippet or "{}")
    data = {"model": inputs.SMALL_MODEL, "cluster": {"device": "h100-sxm-80gb", "nodes": 1}, **needed}
    if "training" in data:
        data["training"] |= {"global_batch": 16}
        data["plan"] = {"tp": 2, "mbs": 1, "zero": 1}
    if id == "plan":
        data["search"] = {"space": {"tp": [1, 2], "mbs": [1, 2], "pp": [1]}}
        del data["plan"]
    for section, small in (("run", {"replications": 2}), ("programs", {"problems": 6}), ("learning", {"steps": 10})):
        if section in data:
            data[section] |= small
    if "serving" in data:
        data["serving"]["traffic"]["num_requests"] = 40
    return json.dumps(data)


def base(id: str, draw: Random) -> dict[str, Any]:
    """A scenario that a command answers."""
    rich = {"run": "run", "cluster": "cluster", "learn": "learn", "reason": "reason"}.get(id)
    if rich and draw.random() < 0.3:
        return draw.choice(inputs.scenarios(rich))
    if id in ("train", "serve") and draw.random() < 0.3:
        return copy.deepcopy((inputs.TRAINING if id == "train" else inputs.SERVING)[0])
    return json.loads(_base(id))  # type: ignore[no-any-return]


@cache
def _turns(seed: int) -> list[schema.FieldOf]:
    turns = list(schema.fields())
    Random(seed).shuffle(turns)
    return turns


def _command(field: schema.FieldOf, entry: str, draw: Random) -> str:
    """A command that has to do with a section, sometimes another one."""
    from windtunnel.commands import COMMANDS

    section, all_ = field.path[0], [id for id in commands() if asked(id, entry)]
    related = {"plan": "training", "techniques": draw.choice(["training", "serving"]), "population": "programs"}
    wanted = related.get(str(section), section)
    own = [id for id in all_ if any(wanted in alternatives for alternatives in COMMANDS.get(id).needs)]
    id = draw.choice(own if own and draw.random() < 0.9 else all_)
    return id if id not in SLOW or draw.random() < 0.03 else draw.choice([one for one in all_ if one not in SLOW])


def damaged(seed: int, number: int, entry: str, draw: Random) -> Case:
    """A command and a scenario in which a field's turn has come, and sometimes more is wrong."""
    turns = _turns(seed)
    field = turns[number % len(turns)]
    id = _command(field, entry, draw)
    data = base(id, draw)
    case: Case = {"command": id, "scenario": data}
    python, settings = entry == "python", list[str]()
    for again in range(draw.choice([1, 1, 1, 2, 3])):
        one = field if not again else draw.choice(turns)
        value = schema.wrong(one, draw, python=python)
        roll = draw.random()
        if roll < 0.2 and not _from_python(value):
            settings.append(setting(one.path, value, draw))
        elif roll < 0.28:
            above, name = one.path[:-1], draw.choice([schema.UNKNOWN, "", "TP", "a.b", "0", "\ud800", "x" * 1200])
            schema.put(data, (*above, name), value, draw)
        elif roll < 0.36:
            mutations.change(data, draw, mild=draw.random() < 0.5)
        else:
            schema.put(data, one.path, value, draw)
    if settings:
        case["set"] = settings
    return case


def _from_python(value: Any) -> bool:
    return "__python__" in json.dumps(value)


def setting(path: schema.Place, value: Any, draw: Random) -> str:
    """A setting as text, sometimes with something wrong in its form."""
    name = ".".join(map(str, path))
    text = value if isinstance(value, str) else json.dumps(value)
    form = draw.choice(
        ["{0}={1}"] * 12 + ["{0}", "={1}", "{0}={1}={1}", "{0}.={1}", ".{0}={1}", "{0} = {1}", "{0}[0]={1}"]
    )
    return form.format(name, text).replace("\x00", "0")


def case(seed: int, number: int) -> Case:
    """The case of a number in the run of a seed, always the same one."""
    draw = Random(f"{seed}-{number}")
    entry = draw.choices([*ENTRIES], [*ENTRIES.values()])[0]
    return {"entry": entry, **_OF_ENTRY[entry](seed, number, draw)}


def _cli(seed: int, number: int, draw: Random) -> Case:
    if draw.random() < 0.35:
        found = fuzz_files.case(draw, number)
        return {"arguments": list(found.arguments), "files": {k: v.decode("latin-1") for k, v in found.files.items()}}
    case = damaged(seed, number, "cli", draw)
    case["as"] = draw.choice(["yaml", "yaml", "json"])
    if draw.random() < 0.12:
        return _as_text(case, draw)
    if draw.random() < 0.003:
        case["process"] = draw.choice([{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {}])
    return case


def _as_text(case: Case, draw: Random) -> Case:
    """The scenario's text with something wrong in it."""
    text = written(case["scenario"], case["as"])
    deep = draw.choice([40, 1000, 100_000])
    raw, _ = mutations.spoil_text(text, draw)
    raw = draw.choice(
        [
            *[raw] * 8,
            (text + f"\nname: {'[' * deep}{']' * deep}\n").encode("utf-8", "replace"),
            (text + f"\nname: {'{a: ' * deep}1{'}' * deep}\n").encode("utf-8", "replace"),
            ('{"model": ' + '{"a":' * deep + "1" + "}" * deep + "}").encode(),
            (text + "\na: &a [1]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n").encode("utf-8", "replace"),
            (text + "\n<<: {name: x}\n? [1, 2]\n: 3\n1: 2\nnull: 3\n2023-01-01: 4\n").encode("utf-8", "replace"),
            (text + "\nmodel: x\n").encode("utf-8", "replace"),
            (text + "\nname: !!python/object/apply:os.system [x]\n").encode("utf-8", "replace"),
            text.encode("utf-16"),
        ]
    )
    name = "s.yaml" if case["as"] == "yaml" else "s.json"
    words = [word for one in case.get("set", ()) for word in ("--set", one)]
    return {"arguments": [case["command"], name, "--json", *words], "files": {name: raw.decode("latin-1")}}


def written(data: Any, form: str) -> str:
    """A scenario as the text of a file."""
    return json.dumps(data) if form == "json" else yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def _python(seed: int, number: int, draw: Random) -> Case:
    return damaged(seed, number, "python", draw)


def _batch(seed: int, number: int, draw: Random) -> Case:
    case = damaged(seed, number, "batch", draw)
    line: dict[str, Any] = {"id": 1, "verb": case["command"], "scenario": case["scenario"]}
    if "set" in case:
        line["set"] = case["set"]
    elif draw.random() < 0.2:
        one = draw.choice(schema.fields())
        line["set"] = {".".join(map(str, one.path)): schema.wrong(one, draw)}
    return {"lines": [_message(line, draw)]}


def _message(data: dict[str, Any], draw: Random) -> str:
    """A message as JSON; sometimes its own fields are wrong, sometimes it is no JSON."""
    roll = draw.random()
    if roll < 0.12:
        data[draw.choice([*data, schema.UNKNOWN])] = copy.deepcopy(draw.choice(schema.PLAIN))
    elif roll < 0.14:
        del data[draw.choice([*data])]
    text = json.dumps(data)
    return mutations.spoil_text(text, draw)[0].decode("utf-8", "replace").replace("\n", " ") if roll > 0.97 else text


_TOOL_OF = {"train": "predict_training", "serve": "predict_serving"}


def _mcp(seed: int, number: int, draw: Random) -> Case:
    from windtunnel.mcp.server import NAMES

    case = damaged(seed, number, "mcp", draw)
    tool = _TOOL_OF.get(case["command"], case["command"])
    given: dict[str, Any] = {"scenario": case["scenario"]}
    roll = draw.random()
    if roll < 0.25:
        tool = draw.choice([name for name in NAMES if name not in ("plan", "sweep_start", "advise")])
        given = _arguments(tool, case["scenario"], draw)
    elif roll < 0.5:
        one = draw.choice(schema.fields())
        given["set"] = {".".join(map(str, one.path)): schema.wrong(one, draw)}
    if draw.random() < 0.1:
        given[draw.choice([*given, "detail", schema.UNKNOWN])] = copy.deepcopy(draw.choice(schema.PLAIN))
    return {"tool": tool, "arguments": given}


def _arguments(tool: str, data: Any, draw: Random) -> dict[str, Any]:
    """Arguments of a tool by its signature, most of them sound."""
    import inspect

    from windtunnel.mcp.tools import Tools

    known: dict[str, list[Any]] = {
        "scenario": [data], "a": [data], "b": [data], "section": ["plan", "", "x"], "words": ["llama", "x y", ""],
        "kind": ["models", "devices", "x"], "techniques": [["diloco"], ["x"], []], "name": ["config.json", "x.sh", "/"],
        "text": [json.dumps(inputs.SMALL_CONFIG), inputs.VLLM, inputs.TORCHTITAN, "", "x"], "id": ["x", ""],
        "options": [{}, {"device": "h100-sxm-80gb"}, {"seq_len": "x"}, {"x": 1}], "folder": [".", "x", "../x"],
        "target": ["vllm", "megatron", "x"],
        "columns": [["step_time_s"], [], ["x"]], "where": [{"x": 1}, {"x": [1]}], "vary": [{"plan.tp": [1, 2]}],
    }  # fmt: skip
    given: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(getattr(Tools, tool)).parameters.items())[1:]:
        if parameter.default is parameter.empty or draw.random() < 0.3:
            wrong = draw.random() < 0.3 or name not in known
            given[name] = copy.deepcopy(draw.choice(schema.PLAIN if wrong else known[name]))
    return given


def _studio(seed: int, number: int, draw: Random) -> Case:
    case = damaged(seed, number, "studio", draw)
    form = draw.choice(["yaml", "json"])
    question: dict[str, Any] = {"text": written(case["scenario"], form), "verb": case["command"]}
    if draw.random() < 0.3:
        question["options"] = draw.choice(
            [{"axis": "rate=1..4", "points": 2}, {"axis": "x"}, {"points": 1e9}, {"load": 2}]
        )
    path = draw.choice(["/api/predict"] * 10 + ["/api/explain"] * 2 + ["/api/report", "/api/export", "/api/job"])
    if path == "/api/explain":
        question["path"] = draw.choice(["step_time_s", "breakdown.gemm", "", "ttft_s.p99", "x"])
    if path == "/api/export":
        question["target"] = draw.choice(["megatron", "vllm", "x"])
    method = "POST"
    if draw.random() < 0.15:
        method = draw.choice(["GET", "POST", "PUT", "DELETE"])
        path = draw.choice(
            ["/api/files", "/api/file/x", "/api/file/%ff", "/api/watch/x", "/api/job/x", "/api/catalogue/models", "/",
             "/api/catalogue/x", "/api/entry/devices/x", "/api/entry/models/..", "/api/sweep/x", "/api/code",
             "/api/trust", "/api/entry/", "/static/x", "/report/x", "/trace/x", "/api/entry/techniques/diloco",
             "/%00", "/api/catalogue/techniques"]
        )  # fmt: skip
        question = {
            name: draw.choice(schema.PLAIN)
            for name in draw.sample(["text", "changed", "file", "code", "seen", "sql"], 2)
        }
    return {"method": method, "path": path, "body": _message(question, draw)}


def _sweep(seed: int, number: int, draw: Random) -> Case:
    from windtunnel.commands import COMMANDS

    case = damaged(seed, number, "sweep", draw)
    if COMMANDS.get(case["command"]).sweep is None and draw.random() < 0.9:
        case["command"], case["scenario"] = "train", base("train", draw)
    turns = _turns(seed)
    field = turns[number % len(turns)]
    name = ".".join(map(str, field.path))
    values = [schema.wrong(field, draw) for _ in range(draw.choice([1, 2]))]
    listed = ",".join(one if isinstance(one, str) else json.dumps(one) for one in values).replace("\x00", "0")
    odd = ["1..2", "1..1e12:+1", "8..64:x2", "1..9:9999999999", "nan..2:3", "2..1:+1", "1..2:x1", "1..2:+0", "", ",",
           "[", "1,1", "..", "1..", "1e400", "0..1:+1e-300", "-1..1:x2"]  # fmt: skip
    axes = [f"{name}={listed if draw.random() < 0.7 else draw.choice(odd)}"]
    if draw.random() < 0.3:
        axes.append("plan.tp=1,2")
    option = draw.choice(["--vary", "--vary", "--vary", "--zip"])
    words = ["sweep", "s.yaml", *(word for one in axes for word in (option, one)), "--out", "d", "-j", "1", "--json"]
    if draw.random() < 0.5:
        words += ["--verb", case["command"]]
    words += draw.choice([[], [], ["--draws", draw.choice(["2", "-1", "1e9", "x", "9" * 30])], ["--dry-run"]])
    text = written(case["scenario"], "yaml").encode("utf-8", "surrogatepass").decode("latin-1")
    return {"arguments": words, "files": {"s.yaml": text}}


_OF_ENTRY = {"cli": _cli, "python": _python, "batch": _batch, "mcp": _mcp, "studio": _studio, "sweep": _sweep}
