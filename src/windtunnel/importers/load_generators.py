"""Settings of load generators alone as a `serving.traffic` section: inference-perf's YAML, guidellm, genai-perf.

Names: kubernetes-sigs/inference-perf `docs/config.md`; vllm-project/guidellm `guidellm benchmark --help`;
triton-inference-server/perf_analyzer `genai-perf profile --help`. Their commands next to a server are read with it.
"""

from __future__ import annotations

import json
from typing import Any

from windtunnel.files.parsing import NotYaml, yaml_of
from windtunnel.importers import server_load, sglang_serve, trtllm_serve, vllm_serve
from windtunnel.importers.launch import Launch, Wanted

FORMAT = "load"
TITLE = "load generator"
_MOST = 10**9
"""Largest number of a setting that is read."""
ENGINES = (vllm_serve, sglang_serve, trtllm_serve)


def detect(text: str) -> bool:
    """Whether a text configures a load and starts no server."""
    if any(engine.detect(text) for engine in ENGINES):
        return False
    return _inference_perf(text) is not None or server_load.place(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read the load; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    settings = _inference_perf(text)
    if settings is None:
        server_load.read(launch, text, wanted.env)
    else:
        _Settings(launch, settings).fill()
    return launch


def _inference_perf(text: str) -> dict[str, Any] | None:
    """The tables of an inference-perf file; None for anything else."""
    if "load:" not in text or "data:" not in text:
        return None
    try:
        data = yaml_of(text)
    except NotYaml:
        return None
    if not isinstance(data, dict) or not all(isinstance(data.get(key), dict) for key in ("load", "data")):
        return None
    return data if {"stages", "sweep", "type"} & data["load"].keys() else None


class _Settings:
    """An inference-perf file on its way to traffic."""

    def __init__(self, launch: Launch, data: dict[str, Any]) -> None:
        self.launch, self.load, self.data = launch, data["load"], data["data"]

    def put(self, field: str, value: Any, said: str) -> None:
        self.launch.set(f"serving.traffic.{field}", value, said)

    def count(self, table: dict[str, Any], names: tuple[str, ...], default: int) -> int:
        """A whole number above 0 of `data.shared_prefix`; anything else is a problem of the file."""
        for name in names:
            value = table.get(name)
            if value is None:
                continue
            if (found := _number(value)) is not None and 1 <= found <= _MOST:
                return int(found)
            self.launch.wrong(f"data.shared_prefix.{name}", "must be a whole number from 1", value)
        return default

    def lengths(self, table: dict[str, Any], names: tuple[str, str], default: int) -> Any:
        """Lengths under the name of a distribution, or of a number; a problem where they are neither."""
        for name in names:
            value = table.get(name)
            if value is None:
                continue
            law = _either(value)
            if law is not None:
                return law
            self.launch.wrong(f"data.shared_prefix.{name}", "must be a number, or a distribution of numbers", value)
        return default

    def fill(self) -> None:
        """Arrivals, then lengths, then what prompts share."""
        self._arrivals()
        kind = str(self.data.get("type", ""))
        if kind == "shared_prefix":
            own = self.data.get("shared_prefix") or {}
            if isinstance(own, dict):
                self._shared(own)
            else:
                self.launch.wrong("data.shared_prefix", "must be a mapping of settings", own)
            return
        for field, name, stand_in in (
            ("input_tokens", "input_distribution", server_load.STAND_IN_INPUT),
            ("output_tokens", "output_distribution", server_load.STAND_IN_OUTPUT),
        ):
            law = _lengths(self.data.get(name))
            if law is None:
                why = f"data.type {kind}: lengths come from a data set that is not here: a stand-in"
                self.launch.assume(f"serving.traffic.{field}", stand_in, why)
            else:
                self.put(field, law, f"data.{name}")

    def _arrivals(self) -> None:
        listed = self.load.get("stages") or []
        stages = [stage for stage in listed if isinstance(stage, dict)] if isinstance(listed, list) else []
        if not stages:
            self.launch.assume("serving.traffic.rate_per_s", 1.0, "load.sweep looks for the rate: a stand-in")
            self.launch.assume("serving.traffic.num_requests", 500, "load.sweep looks for the rate: a stand-in")
            return
        for i, stage in enumerate(stages[1:], 1):
            why = "a scenario has one rate; --sweep rate=… of serve runs several"
            self.launch.leave(f"load.stages[{i}]", json.dumps(stage), None, why)
        first = stages[0]
        level = first.get("concurrency_level", first.get("concurrent_sessions"))
        if isinstance(level, int):
            self.put("concurrency", level, "load.stages[0].concurrency_level")
            count = first.get("num_requests")
            if isinstance(count, int):
                self.put("num_requests", count, "load.stages[0].num_requests")
            else:
                self.launch.assume("serving.traffic.num_requests", 500, "not in the file: a stand-in")
        elif isinstance(rate := first.get("rate"), int | float):
            self.put("rate_per_s", float(rate), "load.stages[0].rate")
            if isinstance(duration := first.get("duration"), int | float):
                self.put("duration_s", float(duration), "load.stages[0].duration")
            if self.load.get("type") == "constant":
                self.put("process", "constant", "load.type")
        else:
            self.launch.wrong("load.stages[0]", "has neither rate nor concurrency_level")

    def _shared(self, own: dict[str, Any]) -> None:
        """Groups of prompts that begin alike; with chat turns, each group's prompts are conversations."""
        prefixes = self.count(own, ("num_unique_system_prompts", "num_groups"), 1)
        users = self.count(own, ("num_users_per_system_prompt", "num_prompts_per_group"), 1)
        system = int(_mean(self.lengths(own, ("system_prompt_len", "system_prompt_len"), 0)))
        asked = self.lengths(own, ("question_distribution", "question_len"), 50)
        answered = self.lengths(own, ("output_distribution", "output_len"), 50)
        turns = max(self._requests() // (prefixes * users), 1) if own.get("enable_multi_turn_chat") else 1
        if turns > 1:
            self._conversations(prefixes, system, asked, answered, turns)
            return
        self.put("input_tokens", _longer(asked, system), "data.shared_prefix.question_len")
        self.put("output_tokens", answered, "data.shared_prefix.output_len")
        if system:
            tenant = {"name": "shared", "shared_prefix_tokens": system, "prefixes": prefixes}
            self.put("tenants", [tenant], "data.shared_prefix")

    def _conversations(self, groups: int, system: int, asked: Any, answered: Any, turns: int) -> None:
        """Chat turns on a system prompt: a task a conversation, so that rates and counts are those of conversations."""
        why = f"enable_multi_turn_chat: {turns} turns a conversation, from the requests of the stage and its users"
        each = {"input_tokens": asked, "output_tokens": answered}
        calls = [{"id": "first", **each}, {"id": "turn", "after": ["first"], **each, "repeat": turns - 1}]
        names = range(1, groups + 1)
        agents = [{"name": f"group-{i}", "system_tokens": system, "calls": calls} for i in names]
        self.put("agents", agents, "data.shared_prefix")
        self.launch.assumed.append(("serving.traffic.agents", f"{groups} groups", why))
        fields = self.launch.fields
        for name in ("rate_per_s", "num_requests"):
            value = fields.get(f"serving.traffic.{name}")
            if value is not None:
                fields[f"serving.traffic.{name}"] = type(value)(max(value / turns, 1e-9 if name == "rate_per_s" else 1))

    def _requests(self) -> int:
        """Requests of the first stage."""
        fields = self.launch.fields
        count = fields.get("serving.traffic.num_requests")
        rate, seconds = fields.get("serving.traffic.rate_per_s", 0.0), fields.get("serving.traffic.duration_s", 0.0)
        return int(count if count is not None else rate * seconds)


def _number(value: Any) -> float | None:
    """A finite number within reason; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_MOST <= value <= _MOST:
        return None
    return value


def _lengths(law: Any) -> Any:
    """A distribution of inference-perf as lengths; None when there is none."""
    if not isinstance(law, dict) or not law:
        return None
    low, high, mean, spread = (_number(law.get(name)) for name in ("min", "max", "mean", "std_dev"))
    kind = str(law.get("type", "normal"))
    if kind == "uniform" and low is not None and high is not None and low != high:
        return {"distribution": "uniform", "min": int(low), "max": int(high)}
    if mean is None:
        mean = high if low is None else low if high is None else (low + high) / 2
    if mean is None:
        return None
    if kind == "fixed" or not spread or low == high or mean <= 0:
        return int(mean)
    name = "lognormal" if kind == "lognormal" else "normal"
    law = {"distribution": name, "mean": float(mean), "cv": round(float(spread) / float(mean), 6)}
    return law | ({} if low is None else {"min": int(low)}) | ({} if high is None else {"max": int(high)})


def _either(value: Any) -> Any:
    """A length, or the distribution that stands in its place."""
    number = _number(value)
    return int(number) if number is not None else _lengths(value)


def _mean(value: Any) -> float:
    """A length, or the mean of the distribution that stands in its place."""
    law = _either(value)
    if isinstance(law, dict):
        return float(law.get("mean") or (law["min"] + law["max"]) / 2)
    return float(law or 0)


def _longer(law: Any, more: int) -> Any:
    """Lengths with so many tokens before each."""
    if isinstance(law, int):
        return law + more
    out = {key: value + more if key in ("min", "max", "mean") else value for key, value in law.items()}
    if "cv" in out:
        out["cv"] = round(law["cv"] * law["mean"] / out["mean"], 6)
    return out
