"""Which architectures two rules split as by hand, and a fine-tuning step on one server next to FSDP's."""

from __future__ import annotations

from windtunnel import catalog
from windtunnel.techniques.published.redco import matches
from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


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
