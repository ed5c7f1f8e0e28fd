"""From what was read of a question to a scenario and the command that answers; what was not said is assumed aloud."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windtunnel import catalog
from windtunnel.errors import BadInput, Problem
from windtunnel.questions.builder import LOADS, Builder, whole
from windtunnel.questions.cluster import A_SITE_W, cluster_of, device_of
from windtunnel.questions.reading import Reading
from windtunnel.stacks.weight_formats import PRECISION, WEIGHTS, in_field

_SERVING = (
    "rate", "outrate", "speed", "users", "input", "output", "engine", "ttft", "tpot", "e2e", "percentile", "offline",
    "cache", "replicas", "disaggregated", "costhour", "prefix", "draft", "speculates", "speculation", "people",
)  # fmt: skip
_TRAINING = (
    "batchtokens", "mbs", "tokens", "steps", "zero", "recompute", "framework", "optimizer", "vpp", "rank", "method",
    "dpo", "deadline", "accumulation", "samples", "epochs", "schedule", "offloads", "mtbf", "saveevery", "spares",
    "pricekwh", "memorylimit",
)  # fmt: skip
"""Fields that only serving, and only training, has."""
_TTFT_S, _TPOT_S, _TOKENS_OF_TTFT = 1.0, 0.05, 2048
"""Objective that is assumed where none is said, seconds; for longer prompts a second for so many tokens."""
_TRAINED_BEST = {"cost": "cost_per_million_tokens", "energy": "energy_per_million_tokens", "throughput": "tokens_per_s"}
"""What is asked to be best → objective of a training plan; absent: the time of a step."""
_BEST = {
    "cost": "cost_per_million_tokens", "throughput": "tokens_per_s", "devices": "devices",
    "latency": "tokens_per_s_per_user", "time": "tokens_per_s_per_user", "ttft": "tokens_per_s_per_user",
    "energy": "energy_per_million_tokens",
}  # fmt: skip
"""What is asked to be best → objective of a deployment."""
_DRAFTED = 3
"""Tokens that a draft proposes at a time, where no number was said."""
_OTHERWISE = {
    "train": "not said; `serve …` asks for serving",
    "serve": "not said; `train …` asks for training",
}
_NO_TRAINING = ("Apple",)
"""Vendors of devices on which a question without a task is one about serving."""
_PRETRAINED, _TUNED, _PROMPT, _ANSWER = 8192, 4096, 1024, 256
_LEAST_BATCH = 16
_USUAL_DEVICE = "h100"
_ANY_BATCH, _ANY_NODES = 512, [1, 2, 4, 8, 16, 32, 64]
"""Sequences of a step, and numbers of nodes, where a run may take any devices."""


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
    best: str = ""
    """What is to be best: cost, time, latency, ttft, throughput, energy or devices; empty where nothing was said."""
    objective: str = ""
    """Of the planner, for a deployment."""
    task_assumed: bool = False
    deadline_days: float | None = None
    budget: float | None = None


def asked(reading: Reading) -> Asked:
    """The scenario of a question.

    Raises:
        BadInput: everything that is missing or does not go together, at once.
    """
    task, said = _task(reading)
    reading, held = _with_a_device(_as_a_rate(reading))
    build = Builder(reading, task, [] if said else [("task", task, _OTHERWISE[task])])
    build.assumed += held
    problems = [*_misplaced(reading, task), *_missing(reading, task), *_alone(reading)]
    if problems:
        raise BadInput(problems)
    model = _model(build)
    cluster, devices = cluster_of(build)
    scenario: dict[str, Any] = {"model": model, "cluster": cluster}
    if task == "serve":
        _check_axes(reading, devices)
        scenario |= _serving(build)
        command = "serve"
    else:
        scenario |= _training(build, devices)
        command = "run" if "run" in scenario else "train"
    if cluster["device"] == "any" or len(reading.all("device")) > 1 or "best" in reading:
        command = "plan"
    elif "fit" in reading.all("wants") and command == "train":
        command = "fit"
    if len(reading.all("device")) > 1:
        search = scenario.setdefault("search", {})
        search.setdefault("space", {})["device"] = [catalog.device(name).id for name in reading.all("device")]
    return Asked(
        task=task,
        command=command,
        scenario=scenario,
        devices=devices,
        wants=tuple(reading.all("wants")),
        assumed=tuple(build.assumed),
        best=reading.get("best", ""),
        task_assumed=not said,
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
    if reading.all("perhaps") != ["train"] and _quantized(reading):
        return "serve", True
    if "longest" in reading.all("wants"):
        return "serve", False
    if _at_a_desk(reading) or ("device" in reading and catalog.device(reading.get("device")).vendor in _NO_TRAINING):
        return "serve", False
    perhaps = reading.all("perhaps")
    return ("serve", True) if perhaps == ["serve"] else ("train", bool(perhaps))


def _quantized(reading: Reading) -> bool:
    """Whether the words say a format of served weights; one that also trains counts where the question is what fits."""
    served = in_field(reading.get("format"), WEIGHTS) not in (None, "bf16", "fp16")
    return served and (not _trained(reading) or bool({"fit", "longest"} & set(reading.all("wants"))))


def _as_a_rate(reading: Reading) -> Reading:
    """Users who each send a request every so many seconds are a rate of requests."""
    if "interval" not in reading or not ("users" in reading or "people" in reading):
        return reading
    users = reading.get("users", reading.get("people"))
    return reading.without("interval", "users", "people").having(rate=users / reading.get("interval"))


def _with_a_device(reading: Reading) -> tuple[Reading, list[tuple[str, Any, str]]]:
    """A question of memory that names no device is one of the fewest H100."""
    named = any(name in reading for name in ("device", "cluster", "anydevice", "best", "count"))
    if named or not {"memory", "fit"} & set(reading.all("wants")):
        return reading, []
    device = catalog.device(_USUAL_DEVICE).id
    return reading.having(device=device, best="devices"), [("cluster.device", device, "not said")]


def _at_a_desk(reading: Reading) -> bool:
    """Whether a speed is asked for on a few cards of a desktop computer, where people run models."""
    asks = {"throughput", "time"} & set(reading.all("wants")) and "train" not in reading.all("perhaps")
    return bool(asks) and "device" in reading and "GeForce" in catalog.device(reading.get("device")).name


def _trained(reading: Reading) -> bool:
    """Whether the format of the question is one of training."""
    return in_field(reading.get("format"), PRECISION) is not None


def _ends(reading: Reading) -> bool:
    """Whether the size of a whole run was said."""
    return any(name in reading for name in ("tokens", "steps", "samples"))


def _misplaced(reading: Reading, task: str) -> list[Problem]:
    """What was said that the task does not have."""
    other, names = ("train", _SERVING) if task != "serve" else ("serve", _TRAINING)
    rule = f"is not of a question about {'training' if other == 'train' else 'serving'}"
    problems = [Problem("", rule, reading.text(name)) for name in names if name in reading]
    if task != "serve" and "format" in reading and not _trained(reading) and reading.get("method") != "qlora":
        problems.append(
            Problem("", "is a format of served weights; `qlora` trains on four bits", reading.text("format"))
        )
    for name in ("budget", "deadline", "pricekwh", "mtbf", "saveevery", "spares"):
        if name in reading and task != "serve" and not _ends(reading):
            problems.append(Problem("", "needs the size of the run, such as `on 1T tokens`", reading.text(name)))
    if task == "serve" and "budget" in reading:
        problems.append(Problem("", "is a sum: say it per hour or per million tokens", reading.text("budget")))
    if task != "serve" and reading.get("best") in ("ttft", "latency"):
        problems.append(Problem("", "is of a question about serving", reading.text("best")))
    return problems


def _missing(reading: Reading, task: str) -> list[Problem]:
    """What no answer can do without."""
    problems = []
    if "model" not in reading and "config" not in reading:
        problems.append(Problem("", "which model? say its name, such as llama3-70b, or `from config.json`"))
    any_device = _any_device(reading, task)
    if not any(name in reading for name in ("device", "cluster")) and not any_device:
        problems.append(Problem("", "on which devices? say for example `on 8 h100`, or `which gpu`"))
    if ("versus" in reading or "compare" in reading) and len(reading.all("device")) < 2:
        rule = "which devices? a comparison names two of them, such as `h100 vs h200`"
        problems.append(Problem("", rule, reading.text("versus") or reading.text("compare")))
    if "days" in reading.all("wants") and task != "serve" and not _ends(reading):
        problems.append(Problem("", "how long is the run? say for example `on 1T tokens` or `10k steps`"))
    return problems


def _alone(reading: Reading) -> Iterator[Problem]:
    """What was said and means nothing without something else."""
    for name, needed, rule in (
        ("interval", (), "of how many users? say for example `200 users, each sends a request every 20 seconds`"),
        ("epochs", ("samples",), "needs the number of examples, such as `50k examples`"),
        ("portbits", ("device", "cluster"), "of which devices?"),
    ):
        if name in reading and not any(other in reading for other in needed):
            yield Problem("", rule, reading.text(name))


def _any_device(reading: Reading, task: str) -> bool:
    """Whether the devices are to be chosen among all that have a price."""
    cheap = task == "serve" and (reading.get("best") in ("cost", "devices") or "costhour" in reading)
    return "anydevice" in reading or cheap or "costtokens" in reading or "budget" in reading


def _model(build: Builder) -> Any:
    """The model of a scenario."""
    config = build.reading.get("config")
    if config is None:
        return build.reading.get("model")
    if not config.endswith(".json"):
        rule = f"is a scenario, not a model: `windtunnel {'serve' if build.task == 'serve' else 'train'} {config}`"
        raise BadInput(Problem("", rule, config))
    if "model" in build.reading:
        raise BadInput(Problem("", f"and {build.reading.get('model')} exclude each other", config))
    return {"config": os.path.expanduser(config)}


def _training(build: Builder, devices: int | None) -> dict[str, Any]:
    """Sections training, plan, run and search."""
    reading = build.reading
    longest = context_limit(reading)
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
    elif "accumulation" in reading:
        training["global_batch"] = _accumulated(build, devices)
    else:
        ranks = devices or 8
        training["global_batch"] = build.given(
            "batch", "training.global_batch", ranks * max(1, -(-_LEAST_BATCH // ranks))
        )
    for name, key in (("format", "precision"), ("framework", "framework"), ("optimizer", "optimizer")):
        if name in reading and (name != "format" or _trained(reading)):
            training[key] = reading.get(name)
    if build.task == "finetune":
        training |= _tuned(build)
    out: dict[str, Any] = {"training": training} | _plan(reading, devices)
    search: dict[str, Any] = {}
    if limits := _limits(reading):
        search["limits"] = limits
    if objective := _TRAINED_BEST.get(reading.get("best", "")):
        search["objective"] = objective
    if devices is not None and "device" not in reading and "cluster" not in reading and "count" not in reading:
        search |= _over_nodes(build, training)
    if search:
        out["search"] = search
    tokens = _tokens(build, length)
    if tokens is not None:
        out["run"] = {"tokens": tokens}
    elif "steps" in reading:
        out["run"] = {"steps": whole(reading.get("steps"))}
    if "run" in out:
        out["run"] |= _of_the_run(reading)
    return out


def _of_the_run(reading: Reading) -> dict[str, Any]:
    """Failures, saves, spares and the price of energy, as far as they were said."""
    out: dict[str, Any] = {}
    if "pricekwh" in reading:
        out["price_per_kwh"] = reading.get("pricekwh")
    if "mtbf" in reading:
        out["failures"] = {"causes": [{"name": "failure", "per_job_day": 1 / reading.get("mtbf")}]}
    if "saveevery" in reading:
        out["checkpoint"] = {"interval": reading.get("saveevery") * 86400}
    if "spares" in reading:
        out["recovery"] = {"spares": whole(reading.get("spares"))}
    return out


def _accumulated(build: Builder, devices: int | None) -> int:
    """Sequences of a step, where steps of accumulation were said: a batch is then one of a device."""
    reading = build.reading
    each = whole(reading.get("mbs", reading.get("batch", 1)))
    cut = 1
    for name in ("tp", "pp", "cp"):
        cut *= whole(reading.get(name, 1))
    ranks = max(1, (devices or 1) // cut)
    batch = int(each * whole(reading.get("accumulation")) * ranks)
    why = f"{each} a device × {whole(reading.get('accumulation'))} steps × {ranks} data-parallel ranks"
    build.assumed.append(("training.global_batch", batch, why))
    return batch


def _tokens(build: Builder, length: int) -> float | None:
    """Tokens of the whole run: those that were said, or those of all samples; None where neither was."""
    reading = build.reading
    if "samples" not in reading:
        return None if "tokens" not in reading else float(reading.get("tokens"))
    tokens = reading.get("samples") * length * reading.get("epochs", 1.0)
    build.assumed.append(("run.tokens", int(tokens), f"{reading.get('samples'):,.0f} samples of {length:,}"))
    return float(tokens)


def _over_nodes(build: Builder, training: dict[str, Any]) -> dict[str, Any]:
    """A search over numbers of nodes, where a whole run may take any devices: by its dollars, inside its limits."""
    reading = build.reading
    if not _ends(reading):
        return {}
    if "batch" not in reading and "batchtokens" not in reading:
        training["global_batch"] = _ANY_BATCH
    kept = [one for one in build.assumed if one[0] not in ("training.global_batch", "cluster.devices")]
    build.assumed[:] = [*kept, ("training.global_batch", training["global_batch"], "not said")]
    limits = {"days": reading.get("deadline"), "run_cost": reading.get("budget")}
    return {
        "objective": "run_cost",
        "limits": {name: value for name, value in limits.items() if value is not None},
        "space": {"nodes": _ANY_NODES, "tp": [1, 2, 4, 8], "pp": [1, 2, 4], "cp": [1], "mbs": [1, 2]},
    }


def _limits(reading: Reading) -> dict[str, Any]:
    """Limits of a search."""
    cap = reading.get("cap")
    limits = {
        "power": reading.get("totalwatts", cap if cap is not None and cap > A_SITE_W else None),
        "cost_per_hour": reading.get("costhour"),
        "cost_per_million_tokens": reading.get("costtokens"),
        "memory_fraction": _memory_fraction(reading),
    }
    return {name: value for name, value in limits.items() if value is not None}


def _memory_fraction(reading: Reading) -> float | None:
    """The share of a device's memory that may be used, where bytes were said."""
    if "memorylimit" not in reading:
        return None
    if "device" not in reading:
        raise BadInput(Problem("", "of which device?", reading.text("memorylimit")))
    share = reading.get("memorylimit") / catalog.device(device_of(reading)).memory_bytes
    if share > 1:
        raise BadInput(Problem("", "is more than the device has", reading.text("memorylimit")))
    return float(share)


def context_limit(reading: Reading) -> int:
    """Tokens of the longest sequence of a catalogue model; 0 where it is not known."""
    name = reading.get("model")
    return 0 if name is None else int(catalog.model(name).max_position_embeddings)


def _tuned(build: Builder) -> dict[str, Any]:
    """Fields of fine-tuning."""
    reading = build.reading
    method = reading.get("method", "lora" if "rank" in reading else None)
    if method is None:
        method = "full"
        build.assumed.append(("training.phase", "sft", "all weights; `lora` trains adapters"))
    own: dict[str, Any] = {"phase": "sft" if method == "full" else "lora"}
    if method != "full":
        lora = {"rank": whole(reading.get("rank"))} if "rank" in reading else {}
        own["lora"] = lora | ({"quantized_base": "nf4"} if method == "qlora" else {})
    if "dpo" in reading:
        own["reference_passes"] = 1
    return own


def _plan(reading: Reading, devices: int | None) -> dict[str, Any]:
    """Axes that were said; the others are left to the planner."""
    if "dp" in reading:
        rest = 1
        for name in ("tp", "pp", "cp"):
            rest *= whole(reading.get(name, 1))
        if devices is not None and whole(reading.get("dp")) * rest != devices:
            rule = f"times tp, pp and cp must be the {devices:,} devices; without it dp is {devices / rest:g}"
            raise BadInput(Problem("", rule, reading.text("dp")))
    said = {
        name: whole(reading.get(name)) for name in ("tp", "pp", "cp", "ep", "vpp", "zero", "mbs") if name in reading
    }
    for name in ("recompute", "schedule"):
        if name in reading:
            said[name] = reading.get(name)
    if "offloads" in reading:
        said["offload"] = {reading.get("offloads"): 1.0}
    if not said:
        return {}
    return {"plan": {**dict.fromkeys(("tp", "pp", "vpp", "cp", "ep", "zero", "mbs", "recompute"), "auto"), **said}}


def _serving(build: Builder) -> dict[str, Any]:
    """Sections serving and search."""
    reading = build.reading
    answer = build.given("output", "serving.traffic.output_tokens", _ANSWER)
    if "length" in reading and "input" not in reading:
        prompt = max(1, whole(reading.get("length")) - answer)  # a context holds prompt and answer
    else:
        prompt = build.given("input", "serving.traffic.input_tokens", _PROMPT)
    traffic: dict[str, Any] = {"num_requests": 1000, "input_tokens": prompt, "output_tokens": answer}
    if "length" in reading and "input" in reading and prompt + answer > reading.get("length"):
        rule = f"is shorter than a prompt of {prompt:,} and an answer of {answer:,} tokens"
        raise BadInput(Problem("", rule, reading.text("length")))
    slo = {f"{name}_s": reading.get(name) for name in ("ttft", "tpot", "e2e") if name in reading}
    if "speed" in reading:
        slo["tpot_s"] = 1.0 / reading.get("speed")
    if "percentile" in reading:
        slo["percentile"] = reading.get("percentile")
    search: dict[str, Any] = {"target": "serving", "objective": _objective(build, traffic, slo)}
    serving: dict[str, Any] = {"traffic": traffic, "slo": slo}
    if "prefix" in reading:
        shared = whole(reading.get("prefix"))
        if "input" in reading and prompt <= shared:  # the user's own words come after it
            prompt = traffic["input_tokens"] = prompt + shared
            build.assumed.append(("serving.traffic.input_tokens", prompt, "with the shared prefix"))
        traffic["shared_prefix_tokens"] = min(shared, prompt)
    if speculation := _speculation(reading):
        serving["speculation"] = speculation
    if "engine" in reading:
        serving["engine"] = reading.get("engine")
    formats = {
        "weights": in_field(reading.get("format"), WEIGHTS) or reading.get("format"),
        "kv_cache": reading.get("cache"),
    }
    if stated := {name: value for name, value in formats.items() if value is not None}:
        serving["precision"] = stated
    space = {name: [whole(reading.get(name))] for name in ("tp", "pp", "dp", "ep") if name in reading}
    load = next((name for name in ("rate_per_s", "concurrency") if name in traffic), "")
    if load and any(name in reading for name in LOADS):
        space[load] = [traffic[load]]
    if "replicas" in reading:
        space["replicas"] = [whole(reading.get("replicas"))]
    if "disaggregated" in reading:
        space["deployment"] = ["disaggregated"]
    if space:
        search["space"] = space
    if limits := _limits(reading):
        search["limits"] = limits
    return {"serving": serving, "search": search}


def _speculation(reading: Reading) -> dict[str, Any]:
    """Drafted tokens, as far as they were said.

    Raises:
        BadInput: nothing says what drafts.
    """
    if "draft" in reading:
        return {"method": "draft", "draft": reading.get("draft"), "tokens": _DRAFTED}
    if "speculation" in reading:
        return {"method": reading.get("speculation"), "tokens": _DRAFTED}
    if "speculates" in reading:
        rule = "with what? say `with llama3-8b as draft`, `eagle`, `mtp` or `ngram`"
        raise BadInput(Problem("", rule, reading.text("speculates")))
    return {}


def _check_axes(reading: Reading, devices: int | None) -> None:
    """Refuse axes of one instance that need more devices than there are."""
    wanted = 1
    for name in ("tp", "pp", "dp"):
        wanted *= whole(reading.get(name, 1))
    if devices is not None and wanted > devices:
        text = ", ".join(reading.text(name) for name in ("tp", "pp", "dp") if name in reading)
        raise BadInput(Problem("", f"needs {wanted:,} devices of {devices:,}", text))


def _objective(build: Builder, traffic: dict[str, Any], slo: dict[str, Any]) -> str:
    """What the deployment is chosen by; the load is written into `traffic`, an assumed objective into `slo`."""
    reading = build.reading
    loads = [name for name in LOADS if name in reading]
    if len(loads) > 1:
        rule = f"and '{reading.text(loads[1])}' exclude each other: both say the load"
        raise BadInput(Problem("", rule, reading.text(loads[0])))
    best = _BEST.get(reading.get("best", ""), "")
    if not loads:
        light = min(1.0, float(f"{_PROMPT / traffic['input_tokens']:.2g}"))
        traffic["rate_per_s"] = round(light * (0.1 if best == "tokens_per_s_per_user" else 1.0), 6)
        if best in ("devices", "tokens_per_s_per_user"):
            build.assumed.append(("serving.traffic.rate_per_s", traffic["rate_per_s"], "not said"))
        _assume_slo(build, traffic, slo)
        return best or "goodput"
    if loads[0] == "offline":
        traffic["offline"] = True
        return best or "tokens_per_s"
    if loads[0] in ("users", "batch"):
        traffic["concurrency"] = whole(reading.get(loads[0]))
    elif loads[0] == "people":
        at_once = max(1, round(reading.get("people") * reading.get("active")))
        traffic["concurrency"] = at_once
        why = f"{reading.get('people'):,.0f} people, {100 * reading.get('active'):g} % at once"
        build.assumed.append(("serving.traffic.concurrency", at_once, why))
    else:
        rate = reading.get("rate") if loads[0] == "rate" else reading.get("outrate") / traffic["output_tokens"]
        traffic["rate_per_s"] = rate
    _assume_slo(build, traffic, slo)
    if not any(name in reading for name in ("count", "nodes", "cluster")):
        return best or ("devices" if "device" in reading else "cost_per_million_tokens")
    return best or "tokens_per_s_per_user"


def _assume_slo(build: Builder, traffic: dict[str, Any], slo: dict[str, Any]) -> None:
    """An objective where none was said: without one, a deployment may let requests wait for any time.

    The first token may take a second, more where prompts are longer than 2,048 tokens.
    """
    if {"ttft_s", "tpot_s", "e2e_s"} & slo.keys() or build.reading.get("best") == "ttft":
        return
    slo["ttft_s"] = max(_TTFT_S, round(traffic["input_tokens"] / _TOKENS_OF_TTFT, 1))
    slo["tpot_s"] = _TPOT_S
    build.assumed += [(f"serving.slo.{name}", slo[name], "not said") for name in ("ttft_s", "tpot_s")]
