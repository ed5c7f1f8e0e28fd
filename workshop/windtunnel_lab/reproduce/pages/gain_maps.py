"""Where a technique helps: its gain over bandwidth and batch, simulated in the scenario of its own limit tests.

`python -m windtunnel_lab.reproduce.pages.gain_maps [ID …]` simulates what `docs/generated/techniques/gains.json` does
not have yet,
or the named ones anew.
"""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from windtunnel import api
from windtunnel.errors import BadInput, Infeasible
from windtunnel.techniques import REGISTRY, Technique
from windtunnel.techniques.limits import merged, more, with_technique
from windtunnel.training.predict import simulate_training

STORE = Path("docs/generated/techniques/gains.json")
BANDWIDTHS = (0.25, 1.0, 4.0)
BATCHES = (0.5, 1.0, 2.0, 4.0)
_RATES = ("scale-up", "scale-out", "network", "memory bandwidth", "host link")
_WORDS = {
    "network": "scale-up and scale-out bandwidth",
    "memory bandwidth": "memory bandwidth",
    "host link": "host link",
}
_LOADS = ("rate_per_s", "concurrency", "num_requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class GainMap:
    """Gains of one technique, knobs at their defaults."""

    measure: str
    """What is gained in."""
    larger: bool
    """Whether more of it is better."""
    bandwidth: str
    batch: str
    bandwidths: tuple[float, ...]
    batches: tuple[float, ...]
    """Times what the scenario has."""
    gains: tuple[tuple[float | None, ...], ...]
    """[bandwidth][batch]: relative improvement of `measure`; None where the case cannot run."""
    scenario: str
    """The middle of the map in a few words."""


def gain_map(technique: Technique) -> GainMap | None:
    """The map of one technique; None where it declares no scenario, or one that is neither a step nor served."""
    limits = technique.limit_cases
    if limits is None or not (limits.serves or limits.trains):
        return None
    rate = technique.relieves if technique.relieves in _RATES else "memory bandwidth" if limits.serves else "network"
    rows = []
    for faster in BANDWIDTHS:
        base = more(limits.scenario, rate, faster) or merged(limits.scenario, {})
        rows.append(tuple(_gain(technique, batched(base, larger)) for larger in BATCHES))
    batch = "load" if limits.serves else "global batch"
    word = _WORDS.get(rate, f"{rate} bandwidth")
    return GainMap(
        measure=limits.measure,
        larger=limits.larger,
        bandwidth=word,
        batch=batch,
        bandwidths=BANDWIDTHS,
        batches=BATCHES,
        gains=tuple(rows),
        scenario=told(limits.scenario),
    )


def _gain(technique: Technique, case: Mapping[str, Any] | None) -> float | None:
    limits = technique.limit_cases
    if limits is None or case is None:
        return None
    run = api.simulate_serving if limits.serves else _train
    try:
        return limits.gain(run(dict(case)), run(with_technique(case, technique.id)))
    except (BadInput, Infeasible, ZeroDivisionError):
        return None


def _train(case: dict[str, Any]) -> Any:
    return simulate_training(case, sensitivities=False)


def batched(scenario: Mapping[str, Any], factor: float) -> dict[str, Any] | None:
    """The scenario with so many times the work at a time, None where that is no whole number.

    Training: sequences of a step. Serving: requests a second, or at once, or in all where none of these is given.
    """
    if "serving" not in scenario:
        batch = scenario["training"]["global_batch"] * factor
        return merged(scenario, {"training": {"global_batch": int(batch)}}) if batch == int(batch) and batch else None
    traffic = scenario["serving"].get("traffic", {})
    name = next((x for x in _LOADS if isinstance(traffic.get(x), int | float)), "")
    if not name:
        return merged(scenario, {}) if factor == 1.0 else None
    value = traffic[name] * factor
    if name != "rate_per_s":
        value = max(round(value), 1)
    return merged(scenario, {"serving": {"traffic": {name: value}}})


def told(scenario: Mapping[str, Any]) -> str:
    """A scenario in one line."""
    cluster, model = scenario["cluster"], scenario["model"]
    where = cluster if isinstance(cluster, str) else _devices(cluster)
    what = model if isinstance(model, str) else model.get("name", "a model of its own")
    plan = dict(scenario.get("plan", {}))
    axes = [f"{axis} {plan[axis]}" for axis in ("tp", "pp", "cp", "ep", "zero", "mbs") if axis in plan]
    training = scenario.get("training", {})
    if training:
        axes.append(f"{training.get('seq_len')} tokens, batch {training.get('global_batch')}")
    return ", ".join([f"{what} on {where}", *axes])


def _devices(cluster: Mapping[str, Any]) -> str:
    if "groups" in cluster:
        return "groups of unlike devices"
    device = cluster.get("device", "")
    name = device if isinstance(device, str) else device.get("id", "a device")
    return f"{cluster.get('nodes', 1) * cluster.get('devices_per_node', 8)} × {name}"


def one(id: str) -> tuple[str, dict[str, Any] | None]:
    """Map of a technique as plain data."""
    found = gain_map(REGISTRY.get(id))
    return id, None if found is None else asdict(found)


def read(store: Path = STORE) -> dict[str, GainMap]:
    """Maps that were stored."""
    if not store.exists():
        return {}
    data = json.loads(store.read_text("utf-8"))
    return {id: GainMap(**{k: _tuples(v) for k, v in found.items()}) for id, found in data.items()}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def update(ids: Sequence[str], store: Path = STORE, jobs: int = 1) -> list[str]:
    """Simulate techniques and store their maps; those of techniques that are gone are dropped.

    Args:
        ids: what to simulate; none: what has no map yet.
        store: file.
        jobs: processes.

    Returns:
        What was simulated.
    """
    data = {id: asdict(found) for id, found in read(store).items() if id in REGISTRY}
    wanted = list(ids) or [
        id
        for id, t in REGISTRY.items()
        if id not in data and t.limit_cases and (t.limit_cases.serves or t.limit_cases.trains)
    ]
    with get_context("spawn").Pool(min(jobs, max(len(wanted), 1))) as pool:
        for id, found in pool.imap_unordered(one, wanted):
            data |= {id: found} if found else {}
    store.parent.mkdir(parents=True, exist_ok=True)
    rows = [f' "{id}": {json.dumps(_rounded(data[id]), ensure_ascii=False)}' for id in sorted(data)]
    store.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
    return wanted


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", help="techniques to simulate anew; none: those without a map")
    parser.add_argument("--all", action="store_true", help="every technique anew")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    print(", ".join(update(given.ids or (REGISTRY.list() if given.all else ()), jobs=given.jobs)) or "nothing new")
