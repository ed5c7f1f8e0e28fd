"""Which architectures two rules split as by hand, and a fine-tuning step on one server beside FSDP's."""

from __future__ import annotations

from typing import Any

from windtunnel import catalog
from windtunnel.techniques.published.redco import matches
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, results, simulated
from windtunnel_lab.reproduce.settings import Values, load

TITLE = "Redco (Tan et al. 2023)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel_lab.papers.redco")


def fixed(name: str) -> Any:
    """One value that the sources give or a rule fixes."""
    return setting()["fixed"][name]["value"]


def split_as_by_hand(_: Values) -> float:
    """Architectures of the abstract."""
    return float(sum(matches(catalog.model(name)) for name in fixed("families")))


def scenario(values: Values, model: str, *, rules: bool) -> Values:
    """One step on one server, the same batch either way."""
    gpus, batch = fixed("gpus"), values["batch"]
    return {
        "model": model,
        "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": gpus},
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": batch,
            "precision": values["precision"],
            "framework": "jax" if rules else "fsdp1",
        },
        "plan": {"zero": 0, "mbs": batch} if rules else {"zero": 3, "mbs": batch // gpus},
        "techniques": [{"redco": {"mesh": gpus}}] if rules else [],
    }


def over_fsdp(values: Values) -> float:
    """FSDP's step over that of tensor ranks, the least."""
    return min(
        simulated(scenario(values, model, rules=False)).step_time_s
        / simulated(scenario(values, model, rules=True)).step_time_s
        for model in fixed("models")
    )


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"rules": split_as_by_hand, "fsdp": over_fsdp}


def run() -> list[ClaimResult]:
    """The rules and what they cost."""
    return results(setting(), "redco", measures())
