"""Damaged files of every kind that the command line reads: a command, its arguments and its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import fuzz_inputs as inputs
import fuzz_mutations as mutations
import yaml

SOUND = 0.04
"""Share of cases without any damage, which must not fail either."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is run: `windtunnel ARGUMENTS` in a folder that holds FILES."""

    seed: int
    arguments: tuple[str, ...]
    files: dict[str, bytes]
    """File name → content; None stands for a folder."""
    told: str
    """What was damaged."""

    def write(self, folder: Path) -> None:
        """Put the files into a folder."""
        for name, content in self.files.items():
            if content == FOLDER:
                (folder / name).mkdir()
            else:
                (folder / name).write_bytes(content)


FOLDER = b"\0 a folder stands here \0"


def _written(data: Any, draw: Random, name: str) -> tuple[bytes, str]:
    """Nested data, damaged, as a file; sometimes its text is damaged instead."""
    roll = draw.random()
    if roll < SOUND:
        return _dump(data, name), "nothing"
    if roll < 0.45:
        told = [mutations.change(data, draw, mild=True) for _ in range(draw.choice([1, 1, 1, 2, 3]))]
        return _dump(data, name), "; ".join(told)
    if roll < 0.9:
        told = [mutations.change(data, draw) for _ in range(draw.choice([1, 1, 1, 1, 2, 3]))]
        return _dump(data, name), "; ".join(told)
    return _text(_dump(data, name).decode(), draw)


def _text(text: str, draw: Random) -> tuple[bytes, str]:
    if draw.random() < 0.01:
        return FOLDER, "a folder"
    return mutations.spoil_text(text, draw)


def _dump(data: Any, name: str) -> bytes:
    text = json.dumps(data) if name.endswith(".json") else yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text.encode("utf-8", "surrogatepass")


def _sets(data: dict[str, Any], draw: Random) -> tuple[str, ...]:
    """Sometimes a `--set` with a path of the scenario and any value."""
    if draw.random() > 0.12:
        return ()
    paths = [p for p in mutations.places(data) if all(isinstance(k, str | int) for k in p)]
    path = ".".join(map(str, draw.choice(paths))) if paths and draw.random() < 0.9 else "a..b"
    value = mutations.value(draw)
    text = value if isinstance(value, str) else json.dumps(value)
    return ("--set", draw.choice([f"{path}={text}", f"{path}={text}", path, f"={text}"]).replace("\x00", "0"))


def _scenario(kind: str, draw: Random) -> tuple[bytes, str, tuple[str, ...], str]:
    data = draw.choice(inputs.scenarios(kind))
    name = "s.json" if draw.random() < 0.1 else "s.yaml"
    sets = _sets(data, draw)
    content, told = _written(data, draw, name)
    return content, told, sets, name


def _word(draw: Random) -> str:
    sound = ["14.6", "14.6-14.7", "950ms", "s.yaml", "1e400", "-1", "0", "nan", "x-y", "1-0", "1..2", "rate=0.5..8"]
    return str(draw.choice([*sound, *mutations.NUMBERS, *(t for t in mutations.TEXTS if "\x00" not in t)]))


def _traffic(draw: Random, seed: int) -> Case:
    name, text = draw.choice(sorted(inputs.traces().items()))
    content, told = _trace_content(name, text, draw)
    data = inputs.scenarios("serve")[-1]
    data["serving"]["traffic"] = {"trace": name, **draw.choice([{}, {"time_scale": 2}, {"num_requests": 5}])}
    return Case(
        seed, ("serve", "s.yaml", "--json"), {"s.yaml": _dump(data, "s.yaml"), name: content}, f"{name}: {told}"
    )


def _trace_content(name: str, text: str, draw: Random) -> tuple[bytes, str]:
    if draw.random() < SOUND:
        return text.encode(), "nothing"
    spoil = mutations.spoil_table if name.endswith(".csv") else mutations.spoil_json
    return spoil(text, draw)


def _import_trace(draw: Random, seed: int) -> Case:
    name, text = draw.choice(sorted(inputs.traces().items()))
    content, told = _trace_content(name, text, draw)
    more = draw.choice([(), (), ("--time-unit", "ms"), ("--block-size", "16"), ("--format", name.rsplit(".", 1)[0])])
    return Case(seed, ("import", name, "--json", *more), {name: content}, told)


def _import_config(draw: Random, seed: int) -> Case:
    data = json.loads(json.dumps(draw.choice(inputs.CONFIGS)))
    if draw.random() < 0.7:
        data["model_type"] = draw.choice(inputs.model_types())
    content, told = _written(data, draw, "config.json")
    return Case(
        seed, ("import", "config.json", "--json"), {"config.json": content}, f"{data.get('model_type')}: {told}"
    )


def _train_config(draw: Random, seed: int) -> Case:
    data = json.loads(json.dumps(draw.choice(inputs.CONFIGS)))
    if draw.random() < 0.7:
        data["model_type"] = draw.choice(inputs.model_types())
    content, told = _written(data, draw, "config.json")
    serves = draw.random() < 0.5
    scenario: dict[str, Any] = {
        "model": {"config": "config.json"},
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    }
    if serves:
        traffic = {"rate_per_s": 2, "num_requests": 10, "input_tokens": 200, "output_tokens": 20}
        scenario["serving"] = {"engine": "vllm", "pools": [{"plan": {"tp": 2}}], "traffic": traffic}
    else:
        scenario |= {"training": {"seq_len": 2048, "global_batch": 16}, "plan": {"tp": 2, "zero": 1}}
    files = {"config.json": content, "s.yaml": _dump(scenario, "s.yaml")}
    verb = "serve" if serves else "train"
    return Case(seed, (verb, "s.yaml", "--json"), files, f"{data.get('model_type')}: {told}")


def _init_config(draw: Random, seed: int) -> Case:
    case = _import_config(draw, seed)
    model = draw.choice(["config.json", ".", "nowhere.json"])
    return Case(seed, ("init", "new.yaml", "--model", model, "--serving", "--json"), case.files, case.told)


_LAUNCH_OPTIONS = [
    *([("--device", "h100-sxm-80gb", "--nodes", "8")] * 3),
    *([("--device", "h100-sxm-80gb", "--nodes", "8", "--model", "meta-llama/Llama-3.1-8B", "--seq-len", "4096")] * 2),
    ("--device", "h100-sxm-80gb", "--nodes", "8", "--model", "Qwen/Qwen3-32B", "--global-batch", "64"),
    (),
    ("--device", "h100-sxm-80gb", "--global-batch", "64", "--env", "TP=x"),
    ("--block", "1"),
]


def _import_launch(draw: Random, seed: int) -> Case:
    name, text = draw.choice(sorted(inputs.LAUNCH.items()))
    if draw.random() < SOUND:
        content, told = text.encode(), "nothing"
    elif name.endswith(".json"):
        content, told = mutations.spoil_json(text, draw)
    elif name.endswith((".yaml", ".yml")) and "---" not in text and draw.random() < 0.7:
        content, told = _written(yaml.safe_load(text), draw, name)
    else:
        content, told = _text(text, draw)
        for _ in range(draw.choice([0, 0, 1, 2])):
            if content == FOLDER:
                break
            content, also = mutations.spoil_text(content.decode("utf-8", "replace"), draw)
            told += f"; {also}"
    return Case(seed, ("import", name, "--json", *draw.choice(_LAUNCH_OPTIONS)), {name: content}, f"{name}: {told}")


def prepare() -> None:
    """Make what several cases start from, so that no case waits for it."""
    for verb in ("train", "serve"):
        _stored(verb)
    from windtunnel import api

    api.simulate_run(inputs.scenarios("run")[0], sensitivities=False)  # compiles its loop, or loads it


@cache
def _stored(verb: str) -> str:
    """What `train --json` or `serve --json` prints of a small scenario."""
    from windtunnel import api
    from windtunnel.training.results.serialise import plain

    if verb == "train":
        data = inputs.TRAINING[0] | {"plan": {"tp": 2}, "techniques": []}
        return json.dumps(plain(api.simulate_training(json.loads(json.dumps(data))).to_dict()))
    data = inputs.SERVING[0]
    return json.dumps(plain(api.simulate_serving(json.loads(json.dumps(data))).to_dict()))


def _of_result(draw: Random, seed: int) -> Case:
    kind = draw.choice(["train", "serve"])
    content, told = mutations.spoil_json(_stored(kind), draw)
    files = {"r.json": content, "b.json": _stored(kind).encode()}
    commands = [
        ("rerun", "r.json"),
        ("compare", "r.json", "b.json"),
        ("compare", "b.json", "r.json"),
        ("explain", "r.json"),
    ]
    return Case(seed, (*draw.choice(commands), "--json"), files, told)


def _compare(draw: Random, seed: int) -> Case:
    kind = draw.choice(["train", "serve"])
    data = inputs.TRAINING[0] if kind == "train" else inputs.SERVING[0]
    content, told, sets, name = _scenario(kind, draw)
    files = {name: content, "b.yaml": _dump(data, "b.yaml")}
    return Case(seed, ("compare", name, "b.yaml", "--json", *sets), files, told)


def _check(draw: Random, seed: int) -> Case:
    content, told, sets, name = _scenario(draw.choice(["train", "serve"]), draw)
    baseline, also = mutations.spoil_json('{"s.yaml": {"step_time_s": 1.5, "mfu": 0.4}}', draw)
    files = {name: content, "b.json": baseline}
    require = draw.choice(["fits", "fits, step_time_s<=16", "ttft_s.p99<=1", _word(draw)])
    more = ("--baseline", "b.json") if draw.random() < 0.5 else ()
    return Case(
        seed,
        ("check", draw.choice([name, name, "."]), "--require", require, "--json", *more, *sets),
        files,
        f"{told}; baseline {also}",
    )


def _validate(draw: Random, seed: int) -> Case:
    content, told = mutations.spoil_json(json.dumps(inputs.rows()), draw)
    more = ("--gate", draw.choice(["mape=0.12", _word(draw)])) if draw.random() < 0.3 else ()
    return Case(seed, ("validate", "--rows", "rows.json", "--json", *more), {"rows.json": content}, told)


def _from_logs(draw: Random, seed: int) -> Case:
    content, told = mutations.spoil_table(inputs.LOGS, draw)
    base = {
        "model": inputs.SMALL_MODEL,
        **{k: inputs.TRAINING[0][k] for k in ("cluster",)},
        "training": {"seq_len": 4096, "global_batch": 16},
        "plan": {"zero": 3, "mbs": 2},
    }
    scenario = _dump(base, "s.yaml")
    if draw.random() < 0.3:
        scenario, also = _written(json.loads(json.dumps(base)), draw, "s.yaml")
        told += f"; scenario {also}"
    return Case(
        seed,
        ("calibrate", "--from-logs", "steps.csv", "--scenario", "s.yaml", "-o", "m.yaml", "--json"),
        {"steps.csv": content, "s.yaml": scenario},
        told,
    )


def _from_nccl(draw: Random, seed: int) -> Case:
    content, told = mutations.spoil_text(inputs.NCCL, draw)
    for _ in range(draw.choice([0, 1, 3])):
        content, also = mutations.spoil_text(content.decode("utf-8", "replace"), draw)
        told += f"; {also}"
    more = draw.choice([(), (), ("--device", "a100-sxm-80gb"), ("--ranks", "8")])
    return Case(
        seed,
        ("calibrate", "--from", "nccl-tests", "all_reduce.txt", "-o", "m.yaml", "--json", *more),
        {"all_reduce.txt": content},
        told,
    )


def _from_kineto(draw: Random, seed: int) -> Case:
    content, told = mutations.spoil_json(json.dumps(inputs.kineto()), draw)
    scenario = _dump(inputs.TRAINING[0] | {"techniques": []}, "s.yaml")
    files = {"t.json": content, "s.yaml": scenario}
    commands = [
        ("calibrate", "--from", "kineto", "t.json", "--scenario", "s.yaml", "-o", "m.yaml", "--json"),
        ("explain", "s.yaml", "--against", "t.json", "--json"),
    ]
    return Case(seed, draw.choice(commands), files, told)


def _device_file(draw: Random, seed: int) -> Case:
    content, told = _written(json.loads(json.dumps(inputs.PROFILE)), draw, "mine.yaml")
    data = inputs.TRAINING[0] | {"cluster": {"device": "mine.yaml", "nodes": 1, "devices_per_node": 4}, "plan": {}}
    files = {"mine.yaml": content, "s.yaml": _dump(data, "s.yaml")}
    verb = draw.choice([("train", "s.yaml"), ("fit", "s.yaml")])
    return Case(seed, (*verb, "--json"), files, told)


def _measure(draw: Random, seed: int) -> Case:
    content, told, sets, name = _scenario(draw.choice(["train", "serve"]), draw)
    return Case(seed, ("measure", name, "--json", *sets), {name: content}, told)


_WRITTEN = {
    "train": [
        ("--report", "r.html"),
        *(("--export", target) for target in ("megatron", "torchtitan", "deepspeed", "megatron_bridge")),
        ("--export", "megatron", "--wrapper", "slurm", "--cite", "p.bib"),
        ("--export", "deepspeed", "--wrapper", "kubernetes", "--target-version", "?"),
    ],
    "serve": [
        ("--report", "r.html"),
        *(("--export", target) for target in ("vllm", "sglang", "trtllm")),
        ("--export", "vllm", "--wrapper", "kubernetes", "--requests", "r.json"),
        ("--export", "sglang", "--wrapper", "?"),
    ],
    "compare": [("--report", "r.html")],
    "advise": [("--no-pairs", "--report", "r.html", "--write", "w.yaml", "--cite", "p.bib")],
    "plan": [("--output", "o.yaml", "--report", "r.html"), ("--export", "vllm"), ("--export", "megatron", "--simpler")],
}
"""Verb → what it is asked to write."""


def _writes(draw: Random, seed: int) -> Case:
    verb = draw.choices([*_WRITTEN], [6, 5, 2, 1, 2])[0]
    kind = {"plan": "search"}.get(verb) or (verb if verb == "serve" else draw.choice(["train", "train", "serve"]))
    content, told, sets, name = _scenario("train" if verb == "train" else kind, draw)
    more = tuple(_word(draw) if one == "?" else one for one in draw.choice(_WRITTEN[verb]))
    other = ("b.yaml",) if verb == "compare" else ()
    files = {name: content} | ({"b.yaml": _dump(inputs.TRAINING[0], "b.yaml")} if other else {})
    return Case(seed, (verb, name, *other, "--json", *more, *sets), files, told)


def _run(draw: Random, seed: int) -> Case:
    content, told, sets, name = _scenario("run", draw)
    if draw.random() < 0.3:
        content, told = _dump(inputs.RUNS[0], name), "nothing"
        log, also = _table(inputs.PROGRESS, draw)
        files = {name: content, "log.csv": log}
        return Case(seed, ("run", name, "--json", "--progress", "log.csv"), files, f"progress: {also}")
    more = draw.choice([(), ("--no-sensitivities",)])
    return Case(seed, ("run", name, "--json", *sets, *more), {name: content}, told)


def _table(text: str, draw: Random) -> tuple[bytes, str]:
    return (text.encode(), "nothing") if draw.random() < SOUND else mutations.spoil_table(text, draw)


def _cluster(draw: Random, seed: int) -> Case:
    content, told, sets, name = _scenario("cluster", draw)
    jobs = inputs.JOBS.encode()
    if draw.random() < 0.4:
        jobs, told = _table(inputs.JOBS, draw)
        content, sets = _dump(draw.choice(inputs.CLUSTERS), name), ()
    return Case(seed, ("cluster", name, "--json", *sets), {name: content, "jobs.csv": jobs}, told)


def _reason(draw: Random, seed: int) -> Case:
    content, told, sets, name = _scenario("reason", draw)
    attempts = inputs.ATTEMPTS.encode()
    if draw.random() < 0.15:
        attempts, told = _table(inputs.ATTEMPTS, draw)
        content, sets = _dump(inputs.REASONING[1], name), ()
    files = {name: content, "attempts.csv": attempts, "small.json": _dump(inputs.SMALL_CONFIG, "small.json")}
    more = draw.choice([(), (), (), ("--report", "r.html")])
    return Case(seed, ("reason", name, "--json", *sets, *more), files, told)


def _from_incidents(draw: Random, seed: int) -> Case:
    content, told = _table(inputs.INCIDENTS, draw)
    words = ("calibrate", "--from", "incidents", "i.csv", "-o", "f.yaml", "--json")
    more = draw.choice([("--nodes", "16"), ("--nodes", "16", "--days", "30"), (), ("--days", _word(draw))])
    return Case(seed, (*words, *more), {"i.csv": content}, told)


def _from_samples(draw: Random, seed: int) -> Case:
    content, told = _table(inputs.ATTEMPTS, draw)
    words = ("calibrate", "--from", "samples", "a.csv", "-o", "p.yaml", "--json")
    more = draw.choice([("--temperature", "0.7"), ("--model", _word(draw)), (), ()])
    return Case(seed, (*words, *more), {"a.csv": content}, told)


def _places(draw: Random, seed: int) -> Case:
    """What is no file: a folder, a device, nothing."""
    place = draw.choice([".", "nowhere.yaml", "/dev/null", "/proc/self/mem", "s.yaml/x", "", "~", "s.yaml"])
    verb = draw.choice(["train", "serve", "fit", "plan", "advise", "explain", "check", "rerun", "import", "measure"])
    files = {"s.yaml": draw.choice([b"", b"\x00", b"- 1\n", b"1\n", b"\xff\xfe", b"a: &a [*a]\n", b"%", FOLDER])}
    return Case(seed, (verb, place, "--json"), files, "a place")


def _names(draw: Random, seed: int) -> Case:
    word = _word(draw)
    verb = draw.choice(["models", "devices", "clusters", "reproduce"])
    more = ("--list",) if verb == "reproduce" else ()
    return Case(seed, (verb, word, "--json", *more), {}, word)


BUILDERS: list[tuple[int, Callable[[Random, int], Case]]] = [
    (4, _traffic),
    (4, _compare),
    (4, _check),
    (4, _of_result),
    (10, _import_config),
    (6, _train_config),
    (1, _init_config),
    (14, _import_launch),
    (6, _import_trace),
    (3, _validate),
    (3, _from_logs),
    (2, _from_nccl),
    (3, _from_kineto),
    (3, _device_file),
    (1, _measure),
    (6, _writes),
    (2, _places),
    (2, _names),
    (3, _run),
    (4, _cluster),
    (4, _reason),
    (4, _from_incidents),
    (3, _from_samples),
]
"""How often each kind of case is drawn."""


def case(draw: Random, seed: int) -> Case:
    """A case of damaged files."""
    return draw.choices([b for _, b in BUILDERS], [w for w, _ in BUILDERS])[0](draw, seed)
