"""A row of servers with BLOOM-176B under one feed: how many more fit before the brake comes."""

from __future__ import annotations

import json
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel import api, catalog
from windtunnel.arrays import Floats
from windtunnel.clusters.power_course import PowerCourse
from windtunnel.clusters.replica_figures import replica_figures
from windtunnel.clusters.result import ClusterResult
from windtunnel.cost.clock import idle_w
from windtunnel.specs.cluster import ClusterRef
from windtunnel_lab.models.clusters.power_row import RowCourse, RowRequests, RowRules, ServerPower, simulate_row
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def scenario(prompt: int, clock: float) -> Values:
    """One server that answers requests of one length, one after the other."""
    probes = fixed("probes")
    limits = {"max_num_seqs": 1, "max_num_batched_tokens": 8192, "max_model_len": 16384}
    return {
        "model": fixed("model"),
        "cluster": {**fixed("server"), "clock_share": clock},
        "serving": {
            "engine": "generic",
            "pools": [{"plan": {"tp": fixed("server")["devices_per_node"]}, "limits": limits}],
            "traffic": {
                "concurrency": 1,
                "num_requests": probes["requests"],
                "input_tokens": prompt,
                "output_tokens": probes["tokens"],
            },
        },
    }


def server_w(device_w: Floats, constant: float) -> Floats:
    """Watts of a whole server whose devices draw so much each: what is next to them is partly in proportion."""
    device = catalog.device(fixed("server")["device"])
    devices, most = fixed("server")["devices_per_node"], float(device.tdp_w or 0.0)
    beside = fixed("server_w") - devices * most
    drawn: Floats = devices * device_w + beside * (constant + (1.0 - constant) * device_w / most)
    return drawn


def probed(constant: float) -> tuple[ServerPower, Floats, float]:
    """A server's power and speeds at each clock; seconds of prompts at both lengths, and of a token."""
    short, long = fixed("probes")["prompts"]
    runs = [(served(scenario(short, clock)), served(scenario(long, clock))) for clock in fixed("clocks")]
    prompt_s = np.array([[run.ttft_s.p50 for run in pair] for pair in runs])
    token_s = np.array([np.mean([run.tpot_s.p50 for run in pair]) for pair in runs])
    prompt_w = np.array([np.mean([run.power["prompt_w"] for run in pair]) for pair in runs])
    tokens_w = np.array([np.mean([run.power["decode_w"] for run in pair]) for pair in runs])
    idle = np.array([idle_w(catalog.device(fixed("server")["device"]))])
    power = ServerPower(
        prompt_w=server_w(prompt_w, constant),
        tokens_w=server_w(tokens_w, constant),
        idle_w=float(server_w(idle, constant)[0]),
        prompt_speed=prompt_s[0, 1] / prompt_s[:, 1],
        tokens_speed=token_s[0] / token_s,
    )
    return power, prompt_s[0], float(token_s[0])


def requests(servers: int, busy: float, prompt_s: Floats, token_s: float) -> RowRequests:
    """Requests of the classes, as many as keep the servers of each priority busy for a share of the time."""
    rng = np.random.default_rng(fixed("seed"))
    classes = list(fixed("classes").values())
    shares = np.array([one["share"] for one in classes])
    short, long = fixed("probes")["prompts"]
    per_token = (prompt_s[1] - prompt_s[0]) / (long - short)
    mean_s = sum(
        one["share"] * (prompt_s[0] + per_token * (np.mean(one["prompt"]) - short) + token_s * np.mean(one["answer"]))
        for one in classes
    )
    span = fixed("hours") * 3600.0
    count = int(rng.poisson(busy * servers / mean_s * span))
    which = rng.choice(len(classes), count, p=shares)
    low, high = (np.array([one["prompt"][i] for one in classes])[which] for i in (0, 1))
    least, most = (np.array([one["answer"][i] for one in classes])[which] for i in (0, 1))
    prompts = prompt_s[0] + per_token * (rng.uniform(low, high) - short)
    return RowRequests(
        arrival_s=np.sort(rng.uniform(0, span, count)),
        high=rng.random(count) < np.array([one["high"] for one in classes])[which],
        prompt_s=prompts,
        tokens_s=token_s * rng.uniform(least, most),
    )


def high_share() -> float:
    """Share of a row's work that is of high priority, by time of answers."""
    classes = fixed("classes").values()
    work = [(one["share"] * np.mean(one["answer"]), one["high"]) for one in classes]
    return float(sum(w * high for w, high in work) / sum(w for w, _ in work))


@lru_cache(maxsize=64)
def row(more: float, busy: float, constant: float, caps: bool, brake: bool = True) -> RowCourse:
    """The row with a share of servers more than it is provisioned for."""
    power, prompt_s, token_s = probed(constant)
    servers = round(fixed("servers") * (1.0 + more))
    first, second = fixed("thresholds")
    rules = RowRules(
        limit_w=fixed("servers") * fixed("server_w") * (1.0 if brake else 1e3),
        first=first,
        second=second,
        delay_s=fixed("delay_s"),
        caps=caps,
    )
    high = np.arange(servers) < round(high_share() * servers)
    return simulate_row(power, rules, requests(servers, busy, prompt_s, token_s), high, fixed("hours") * 3600.0)


def peak_inference(values: Values) -> float:
    """Peak of the row over its feed's watts."""
    course = row(0.0, values["busy"], values["constant"], False)
    return float(course.watts.max() / (fixed("servers") * fixed("server_w")))


@lru_cache(maxsize=8)
def _training_row(constant: float) -> float:
    """Peak reading of a row of `windtunnel cluster` that runs the training job alone, over its provisioned watts."""
    own = fixed("training")
    step: Values = {
        "model": own["model"],
        "cluster": {**fixed("server"), "nodes": own["nodes"]},
        "training": {"seq_len": own["seq_len"], "global_batch": own["global_batch"], "framework": "megatron_deepspeed"},
        "plan": {"tp": own["tp"], "pp": own["pp"], "mbs": own["mbs"], "zero": 1},
    }
    devices = own["nodes"] * fixed("server")["devices_per_node"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "step.json"
        file.write_text(json.dumps(step))
        job = {"name": "training", "devices": devices, "scenario": str(file), "steps": 10}
        feeds = {"oversubscribed": 0.0, "caps": False, **_beside(constant)}
        jobs = {"generate": {"rate_per_hour": 1, "count": 1, "classes": [job]}, "power": feeds}
        result = api.simulate_cluster({"cluster": {**fixed("server"), "nodes": own["nodes"]}, "jobs": jobs})
    assert isinstance(result, ClusterResult) and result.feeds is not None
    (row,) = result.feeds.rows
    return row.peak_w / row.limit_w


def peak_training(values: Values) -> float:
    """Watts of servers in a training step over what they are provisioned for."""
    return _training_row(values["constant"])


def _beside(constant: float) -> Values:
    """Watts of a server next to its devices, as `jobs.power` states them."""
    device = catalog.device(fixed("server")["device"])
    watts = fixed("server_w") - fixed("server")["devices_per_node"] * float(device.tdp_w or 0.0)
    return {"beside_devices": watts, "beside_constant": constant}


def _one_server() -> Values:
    """A replica of a fleet: one request after the other, of the classes' mean lengths."""
    classes = list(fixed("classes").values())
    prompt, answer = (round(sum(one["share"] * np.mean(one[name]) for one in classes)) for name in ("prompt", "answer"))
    server = scenario(prompt, 1.0)
    traffic = {"rate_per_s": 0.05, "num_requests": 200, "input_tokens": prompt, "output_tokens": answer}
    server["serving"]["traffic"] = traffic
    return server


@lru_cache(maxsize=32)
def fleet_row(more: float, busy: float, constant: float) -> PowerCourse:
    """A row of `windtunnel cluster` whose servers are replicas of a fleet of each priority, all of them always wanted.

    They get a share `busy` of what they sustain; one job of a device keeps the room open for the hours.
    """
    servers = round(fixed("servers") * (1.0 + more))
    high = round(high_share() * servers)
    label, own = fixed("server")["device"], {**fixed("server"), "nodes": servers + 1}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "server.json"
        file.write_text(json.dumps(_one_server()))
        rate = replica_figures(file, ClusterRef(**own), label).rate_per_s
        fleets = [
            {"name": name, "scenario": str(file), "load": [busy * rate * count], "least": count, "most": count}
            | {"priority": priority}
            for name, count, priority in (("low", servers - high, 0), ("high", high, 1))
        ]
        job = {"name": "clock", "devices": 1, "duration": fixed("hours") * 3600.0}
        first, second = fixed("thresholds")
        feeds = {"limit": fixed("servers") * fixed("server_w"), "first": first, "second": second, **_beside(constant)}
        _, *clocks = fixed("clocks")
        feeds |= dict(zip(("first_clock", "second_clock", "brake_clock"), clocks, strict=True))
        feeds["delay"] = fixed("delay_s")
        jobs = {"generate": {"rate_per_hour": 1, "count": 1, "classes": [job]}, "policy": "priority"}
        result = api.simulate_cluster({"cluster": own, "jobs": jobs | {"serving": fleets, "power": feeds}})
    assert isinstance(result, ClusterResult) and result.feeds is not None
    return result.feeds


def fleet_peak(values: Values) -> float:
    """Peak reading of a row of fleets over its feed's watts, without a server more."""
    (row,) = fleet_row(0.0, values["busy"], values["constant"]).rows
    return row.peak_w / row.limit_w


def loss(values: Values) -> float:
    """p99 of high priority with 30 % more servers, over that of the same row without caps or brake."""
    capped = row(0.3, values["busy"], values["constant"], True)
    free = row(0.3, values["busy"], values["constant"], False, brake=False)
    rows = requests_of(values)
    return capped.p99(rows) / free.p99(rows)


def requests_of(values: Values) -> Any:
    """Which requests of the row with 30 % more servers are of high priority."""
    _, prompt_s, token_s = probed(values["constant"])
    return requests(round(fixed("servers") * 1.3), values["busy"], prompt_s, token_s).high


def brakes(values: Values, more: float) -> float:
    """Times that the brake comes."""
    return float(row(more, values["busy"], values["constant"], True).brakes)


def caps_help(values: Values) -> float:
    """Peak under the thresholds over that without caps and brake."""
    busy, constant = values["busy"], values["constant"]
    return float(row(0.3, busy, constant, True).watts.max() / row(0.3, busy, constant, False, False).watts.max())


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "peak/inference": peak_inference,
        "peak/training": peak_training,
        "brakes/30": lambda values: brakes(values, 0.3),
        "loss/30": loss,
        "brakes/50": lambda values: brakes(values, 0.5),
        "caps": caps_help,
        "fleets/peak": fleet_peak,
        "fleets/brakes/30": lambda values: float(fleet_row(0.3, values["busy"], values["constant"]).brakes),
        "fleets/brakes/50": lambda values: float(fleet_row(0.5, values["busy"], values["constant"]).brakes),
    }
