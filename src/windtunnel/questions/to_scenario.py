"""From what was read of a question to a scenario and the command that answers; what was not said is assumed aloud."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windtunnel import catalog
from windtunnel.catalog.resolution import default_node
from windtunnel.errors import BadInput, Problem
from windtunnel.questions.reading import Reading

_SERVING = (
    "rate", "outrate", "speed", "users", "input", "output", "engine", "ttft", "tpot", "e2e", "percentile", "offline",
    "cache",
)  # fmt: skip
_TRAINING = (
    "batchtokens", "mbs", "tokens", "steps", "zero", "recompute", "framework", "optimizer", "vpp", "rank", "method",
    "dpo", "deadline",
)  # fmt: skip
"""Fields that only serving, and only training, has."""
_SAID = {
    "rate": "requests a second", "outrate": "tokens a second", "speed": "tokens a second for a user",
    "users": "users at once", "input": "tokens of a prompt", "output": "tokens of an answer",
    "engine": "a serving engine", "ttft": "TTFT", "tpot": "TPOT", "e2e": "a response time", "offline": "offline",
    "percentile": "a percentile", "cache": "the format of a KV cache", "batchtokens": "a batch in tokens",
    "mbs": "a micro-batch", "tokens": "tokens of a run", "steps": "steps of a run", "zero": "sharding (ZeRO, FSDP)",
    "recompute": "recomputation", "framework": "a training framework", "optimizer": "an optimizer", "vpp": "vpp",
    "rank": "rank of adapters", "method": "a way of fine-tuning", "dpo": "DPO", "deadline": "a deadline",
}  # fmt: skip
_LOADS = "rate", "outrate", "users", "batch", "offline"
_ONLY_SERVED = ("w4a16", "q4_0")
_SLO = {"ttft_s": 1.0, "tpot_s": 0.05}
"""Objective that is assumed where a question asks how much can be served: seconds."""
_BEST = {
    "cost": "cost_per_million_tokens", "throughput": "tokens_per_s", "devices": "devices",
    "latency": "tokens_per_s_per_user", "time": "tokens_per_s_per_user",
}  # fmt: skip
"""What is asked to be best → objective of a deployment."""
_A_SITE_W = 2500.0
"""A limit above this many watts is one of all devices: no device of the catalogue draws as much."""
_PRETRAINED, _TUNED, _PROMPT, _ANSWER = 8192, 4096, 1024, 256
_LEAST_BATCH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a question asks for."""

    task: str
    """train, finetune or serve."""
    command: str
    """Command that answers: train, run, serve or plan."""
    scenario: dict[str, Any]
    devices: int | None
    """None: the fewest that do are asked for."""
    wants: tuple[str, ...]
    assumed: tuple[tuple[str, Any, str], ...]
    """Field of the scenario, value, why."""
    objective: str = ""
    """Of the planner, for a deployment."""
    deadline_days: float | None = None
    budget: float | None = None


@dataclass(slots=True)
class _Builder:
    """One question on its way."""

    reading: Reading
    task: str
    assumed: list[tuple[str, Any, str]] = field(default_factory=list)

    def given(self, name: str, path: str, otherwise: Any, why: str = "not said") -> Any:
        """What was said of a field, else what is assumed."""
        if name in self.reading:
            return _whole(self.reading.get(name))
        self.assumed.append((path, otherwise, why))
        return otherwise


def asked(reading: Reading) -> Asked:
    """The scenario of a question.

    Raises:
        BadInput: everything that is missing or does not go together, at once.
    """
    task, said = _task(reading)
    build = _Builder(reading, task, [] if said else [("task", "train", "not said; `serve …` asks for serving")])
    problems = [*_misplaced(reading, task), *_missing(reading, task)]
    if problems:
        raise BadInput(problems)
    model = _model(build)
    cluster, devices = _cluster(build)
    scenario: dict[str, Any] = {"model": model, "cluster": cluster}
    if task == "serve":
        scenario |= _serving(build)
        command = "serve"
    else:
        scenario |= _training(build, devices)
        command = "run" if "run" in scenario else "train"
    if cluster["device"] == "any":
        command = "plan"
    return Asked(
        task=task,
        command=command,
        scenario=scenario,
        devices=devices,
        wants=tuple(reading.all("wants")),
        assumed=tuple(build.assumed),
        objective=scenario.get("search", {}).get("objective", ""),
        deadline_days=reading.get("deadline"),
        budget=reading.get("budget"),
    )


def _task(reading: Reading) -> tuple[str, bool]:
    """train, finetune or serve, and whether the words say so."""
    said = reading.all("task")
    serves = "serve" in said or (not said and any(name in reading for name in _SERVING))
    trains = "train" in said or "finetune" in said or (not said and any(name in reading for name in _TRAINING))
    if serves and trains:
        raise BadInput("the words ask to train and to serve; ask one question at a time")
    if serves or (not trains and reading.all("wants") == ["capacity"]):
        return "serve", True
    if trains:
        tunes = "finetune" in said or any(name in reading for name in ("rank", "method", "dpo"))
        return "finetune" if tunes else "train", True
    perhaps = reading.all("perhaps")
    return ("serve", True) if perhaps == ["serve"] else ("train", bool(perhaps))


def _misplaced(reading: Reading, task: str) -> list[Problem]:
    """What was said that the task does not have."""
    other, names = ("train", _SERVING) if task != "serve" else ("serve", _TRAINING)
    rule = f"is not of a question about {'training' if other == 'train' else 'serving'}"
    problems = [Problem("", rule, _SAID[name]) for name in names if name in reading]
    if task != "serve" and reading.get("format") in _ONLY_SERVED and reading.get("method") != "qlora":
        problems.append(Problem("", "is a format of served weights; `qlora` trains adapters on four bits", "4 bit"))
    if task == "train" and "dp" in reading:
        problems.append(Problem("", "follows from the devices, tp, pp and cp; leave it out", "data parallelism"))
    if "budget" in reading and "tokens" not in reading and "steps" not in reading:
        problems.append(Problem("", "needs the size of the run, such as `on 1T tokens`", "a budget"))
    if "deadline" in reading and "tokens" not in reading and "steps" not in reading:
        problems.append(Problem("", "needs the size of the run, such as `on 1T tokens`", "a deadline"))
    return problems


def _missing(reading: Reading, task: str) -> list[Problem]:
    """What no answer can do without."""
    problems = []
    if "model" not in reading and "config" not in reading:
        problems.append(Problem("", "which model? say its name, such as llama3-70b, or `from config.json`"))
    any_device = "anydevice" in reading or (task == "serve" and reading.get("best") == "cost")
    if not any(name in reading for name in ("device", "cluster")) and not any_device:
        problems.append(Problem("", "on which devices? say for example `on 8 h100`, or `which gpu`"))
    if "versus" in reading or "compare" in reading or len(reading.all("device")) > 1:
        rule = "two things are asked about: ask of one at a time; `windtunnel compare A B` compares two scenarios"
        problems.append(Problem("", rule))
    if "days" in reading.all("wants") and task != "serve" and "tokens" not in reading and "steps" not in reading:
        problems.append(Problem("", "how long is the run? say for example `on 1T tokens` or `10k steps`"))
    return problems


def _model(build: _Builder) -> Any:
    """The model of a scenario."""
    config = build.reading.get("config")
    if config is None:
        return build.reading.get("model")
    if not config.endswith(".json"):
        rule = f"is a scenario, not a model: `windtunnel {'serve' if build.task == 'serve' else 'train'} {config}`"
        raise BadInput(Problem("", rule, config))
    if "model" in build.reading:
        raise BadInput(Problem("", f"and {build.reading.get('model')} exclude each other", config))
    path = Path(config).expanduser()
    if not path.is_file():
        raise BadInput(Problem("", "no such file", config))
    return {"config": str(path)}


def _cluster(build: _Builder) -> tuple[dict[str, Any], int | None]:
    """The cluster of a scenario, and its devices where they were said."""
    reading = build.reading
    extra = {}
    cap = reading.get("cap")
    if cap is not None and cap <= _A_SITE_W:
        extra["power_cap_w"] = cap
    if "price" in reading:
        extra["price_per_device_hour"] = reading.get("price")
    count, nodes, per_node = (_whole(reading.get(name)) for name in ("count", "nodes", "pernode"))
    if "cluster" in reading:
        one = catalog.cluster(reading.get("cluster"))
        device, per_node, nodes = one.device.id, one.devices_per_node, (nodes or 1) * one.nodes
    elif "device" in reading:
        device = catalog.device(reading.get("device")).id
    else:
        count = build.given("count", "cluster.devices", 8)
        return {"device": "any", "nodes": 1, "devices_per_node": count, **extra}, count
    usual = default_node(catalog.device(device))
    per_node = per_node or (usual.devices_per_node if usual is not None else 8)
    if nodes is not None:
        if count is not None and count != nodes * per_node:
            if count % nodes:
                raise BadInput(f"{count} devices do not share out evenly to {nodes} nodes")
            per_node = count // nodes
        count = nodes * per_node
    elif count is not None:
        per_node = max(n for n in range(1, per_node + 1) if count % n == 0)
        nodes = count // per_node
    elif "pernode" in reading:
        raise BadInput(f"how many nodes of {per_node} devices? say for example `2 nodes of {per_node} {device}`")
    elif reading.get("best") != "devices" and not (build.task == "serve" and any(name in reading for name in _LOADS)):
        nodes, count = 1, per_node
        build.assumed.append(("cluster.devices", count, f"not said; one node of {device}"))
    return {"device": device, "nodes": nodes or 1, "devices_per_node": per_node, **extra}, count


def _training(build: _Builder, devices: int | None) -> dict[str, Any]:
    """Sections training, plan, run and search."""
    reading = build.reading
    longest = _longest(build)
    usual = _TUNED if build.task == "finetune" else _PRETRAINED
    length = build.given("length", "training.seq_len", min(usual, longest or usual))
    training: dict[str, Any] = {"seq_len": length}
    if "batchtokens" in reading:
        tokens = reading.get("batchtokens")
        if "batch" in reading:
            raise BadInput("the batch is said twice, in tokens and in sequences")
        training["global_batch"] = max(1, round(tokens / length))
        why = f"{tokens:,.0f} tokens of {length:,}"
        build.assumed.append(("training.global_batch", training["global_batch"], why))
    else:
        whole = devices or 8
        training["global_batch"] = build.given(
            "batch", "training.global_batch", whole * max(1, -(-_LEAST_BATCH // whole))
        )
    for name, key in (("format", "precision"), ("framework", "framework"), ("optimizer", "optimizer")):
        if name in reading and not (name == "format" and reading.get("format") in _ONLY_SERVED):
            training[key] = reading.get(name)
    if build.task == "finetune":
        training |= _tuned(build)
    out: dict[str, Any] = {"training": training} | _plan(reading)
    cap = reading.get("cap")
    watts = reading.get("totalwatts", cap if cap is not None and cap > _A_SITE_W else None)
    if watts is not None:
        out["search"] = {"limits": {"power": watts}}
    if "tokens" in reading:
        out["run"] = {"tokens": reading.get("tokens")}
    elif "steps" in reading:
        out["run"] = {"steps": _whole(reading.get("steps"))}
    return out


def _longest(build: _Builder) -> int:
    """Tokens of the longest sequence of a catalogue model; 0 where it is not known."""
    name = build.reading.get("model")
    return 0 if name is None else int(catalog.model(name).max_position_embeddings)


def _tuned(build: _Builder) -> dict[str, Any]:
    """Fields of fine-tuning."""
    reading = build.reading
    method = reading.get("method", "lora" if "rank" in reading else None)
    if method is None:
        method = "full"
        build.assumed.append(("training.phase", "sft", "all weights; `lora` trains adapters"))
    own: dict[str, Any] = {"phase": "sft" if method == "full" else "lora"}
    if method != "full":
        lora = {"rank": _whole(reading.get("rank"))} if "rank" in reading else {}
        own["lora"] = lora | ({"quantized_base": "nf4"} if method == "qlora" else {})
    if "dpo" in reading:
        own["reference_passes"] = 1
    return own


def _plan(reading: Reading) -> dict[str, Any]:
    """Axes that were said; the others are left to the planner."""
    said = {
        name: _whole(reading.get(name)) for name in ("tp", "pp", "cp", "ep", "vpp", "zero", "mbs") if name in reading
    }
    if "recompute" in reading:
        said["recompute"] = reading.get("recompute")
    if not said:
        return {}
    return {"plan": {**dict.fromkeys(("tp", "pp", "vpp", "cp", "ep", "zero", "mbs", "recompute"), "auto"), **said}}


def _serving(build: _Builder) -> dict[str, Any]:
    """Sections serving and search."""
    reading = build.reading
    prompt = "input" if "input" in reading or "length" not in reading else "length"
    traffic: dict[str, Any] = {
        "num_requests": 1000,
        "input_tokens": build.given(prompt, "serving.traffic.input_tokens", _PROMPT),
        "output_tokens": build.given("output", "serving.traffic.output_tokens", _ANSWER),
    }
    slo = {f"{name}_s": reading.get(name) for name in ("ttft", "tpot", "e2e") if name in reading}
    if "speed" in reading:
        slo["tpot_s"] = 1.0 / reading.get("speed")
    if "percentile" in reading:
        slo["percentile"] = reading.get("percentile")
    search: dict[str, Any] = {"target": "serving", "objective": _objective(build, traffic, slo)}
    serving: dict[str, Any] = {"traffic": traffic, "slo": slo}
    if "engine" in reading:
        serving["engine"] = reading.get("engine")
    formats = {"weights": reading.get("format"), "kv_cache": reading.get("cache")}
    if stated := {name: value for name, value in formats.items() if value is not None}:
        serving["precision"] = stated
    space = {name: [_whole(reading.get(name))] for name in ("tp", "pp", "dp", "ep") if name in reading}
    load = next((name for name in ("rate_per_s", "concurrency") if name in traffic), "")
    if load and any(name in reading for name in _LOADS):
        space[load] = [traffic[load]]
    if space:
        search["space"] = space
    cap = reading.get("cap")
    watts = reading.get("totalwatts", cap if cap is not None and cap > _A_SITE_W else None)
    if watts is not None:
        search["limits"] = {"power": watts}
    return {"serving": serving, "search": search}


def _objective(build: _Builder, traffic: dict[str, Any], slo: dict[str, Any]) -> str:
    """What the deployment is chosen by; the load is written into `traffic`, an assumed objective into `slo`."""
    reading = build.reading
    loads = [name for name in _LOADS if name in reading]
    if len(loads) > 1:
        raise BadInput(f"{_SAID.get(loads[0], 'a batch')} and {_SAID.get(loads[1], 'a batch')} exclude each other")
    best = _BEST.get(reading.get("best", ""), "")
    if not loads:
        traffic["rate_per_s"] = 1.0
        if best == "devices":
            build.assumed.append(("serving.traffic.rate_per_s", 1.0, "not said"))
        else:
            best = best or "goodput"
        _assume_slo(build, slo)
        return best
    if loads[0] == "offline":
        traffic["offline"] = True
        return best or "tokens_per_s"
    if loads[0] in ("users", "batch"):
        traffic["concurrency"] = _whole(reading.get(loads[0]))
    else:
        rate = reading.get("rate") if loads[0] == "rate" else reading.get("outrate") / traffic["output_tokens"]
        traffic["rate_per_s"] = rate
    _assume_slo(build, slo)
    if not any(name in reading for name in ("count", "nodes", "cluster")):
        return best or ("devices" if "device" in reading else "cost_per_million_tokens")
    return best or "tokens_per_s_per_user"


def _assume_slo(build: _Builder, slo: dict[str, Any]) -> None:
    """An objective where none was said: without one, a deployment may let requests wait for any time."""
    if {"ttft_s", "tpot_s", "e2e_s"} & slo.keys():
        return
    for name, seconds in _SLO.items():
        slo[name] = seconds
        build.assumed.append((f"serving.slo.{name}", seconds, "not said"))


def _whole(value: Any) -> Any:
    """A number without a fraction as a whole one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
