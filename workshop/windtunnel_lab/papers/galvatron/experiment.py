"""Hybrid plans against single strategies on eight GPUs behind PCIe, under four memory budgets."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from windtunnel import catalog
from windtunnel.arrays import Floats
from windtunnel.errors import Infeasible
from windtunnel.network.groups import Mesh
from windtunnel.network.model import NetworkModel
from windtunnel.specs.cluster import ClusterRef
from windtunnel_lab.models.planner.layer_strategies import LayerCosts, assign, uniform
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, planned, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
PURE = ((1, 1, 8, 0), (1, 1, 8, 3), (8, 1, 1, 0), (1, 8, 1, 0))
"""Data, sharded data, tensor and pipeline parallelism alone on eight devices: tp, pp, dp, ZeRO."""
THREE_DIMENSIONS = ((2, 2, 2, 0),)
DEVICE_GIB = 24.0
BERT: Values = {"family": "encoder", "name": "BERT-Huge-32"}
VIT: Values = {
    "family": "vit",
    "name": "ViT-Huge-32",
    "image_size": 224,
    "patch_size": 14,
    "num_labels": 1000,
    "vocab_size": 1,
    "tie_word_embeddings": False,
}


def scenario(kind: Values, batch: int, budget_gib: float, values: Values, *, nodes: int = 1, **plan: Any) -> Values:
    """One training step under a memory budget."""
    return {
        "model": {
            "hidden_size": 1280,
            "num_hidden_layers": 32,
            "num_attention_heads": 16,
            "intermediate_size": 5120,
            "vocab_size": fixed("vocab_size"),
            "gated_mlp": False,
            "hidden_act": "gelu",
            "norm": "layernorm",
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "position_embedding": "learned",
            "max_position_embeddings": 512,
        }
        | kind,
        "cluster": {
            "device": EXPERIMENT.setting["device"],
            "nodes": nodes,
            "devices_per_node": fixed("gpus"),
            "memory_bytes": budget_gib * 2**30,
            "scale_up": {
                "id": "pcie",
                "bytes_per_s": values["pcie_gb_per_s"] * 1e9,
                "latency_s": "2.5 us",
                "topology": "host",
                "family": "pcie3",
            },
            "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": values["nic_gbit"] * 1e9 / 8},
        },
        "training": {
            "seq_len": 257 if kind["family"] == "vit" else fixed("seq_len"),
            "global_batch": batch,
            "precision": values["precision"],
            "framework": "generic",
            "attention": fixed("attention"),
        },
        "plan": plan,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One simulated plan."""

    tp: int
    pp: int
    dp: int
    zero: int
    batch: int
    rate: float
    """Samples per second."""
    reserved_gib: float

    @property
    def layout(self) -> tuple[int, int, int, int]:
        """What makes two strategies different."""
        return self.tp, self.pp, self.dp, self.zero


NOTHING = Run(tp=1, pp=1, dp=1, zero=0, batch=0, rate=0.0, reserved_gib=0.0)


def runs(kind: Values, values: Values, nodes: int = 1) -> list[Run]:
    """Every plan of the space at every batch. Micro-batches exist in pipelines alone."""
    space, found = EXPERIMENT.setting["space"], []
    for tp, pp, zero, batch in product(space["tp"], space["pp"], space["zero"], fixed("batches")):
        dp = nodes * fixed("gpus") // (tp * pp)
        if not dp or (zero and dp == 1):
            continue
        for m in space["micro_batches"] if pp > 1 else (1,):
            if batch % (dp * m):
                continue
            step = scenario(
                kind, batch, DEVICE_GIB, values, nodes=nodes, tp=tp, pp=pp, zero=zero, mbs=batch // (dp * m)
            )
            run = simulated(step)
            found.append(
                Run(
                    tp=tp,
                    pp=pp,
                    dp=dp,
                    zero=zero,
                    batch=batch,
                    rate=batch / run.step_time_s,
                    reserved_gib=run.reserved_bytes / 2**30,
                )
            )
    return found


def winner(plans: list[Run], budget_gib: float) -> Run:
    """The fastest plan that a budget holds; of equals the one with the fewest stages and shards."""
    return max(
        (run for run in plans if run.reserved_gib <= budget_gib),
        key=lambda run: (run.rate, -run.tp, -run.pp, -run.zero),
        default=NOTHING,
    )


def gain(values: Values, kind: Values, layouts: tuple[tuple[int, int, int, int], ...]) -> float:
    """Best throughput over the best of some layouts, smallest of the budgets where one of them fits."""
    plans, ratios = runs(kind, values), []
    for budget in fixed("budgets_gib"):
        limited = winner([run for run in plans if run.layout in layouts], budget)
        if limited.rate:
            ratios.append(winner(plans, budget).rate / limited.rate)
    return min(ratios)


def planner_agrees(values: Values) -> float:
    """Throughput of the planner's choice over enumeration's best at the same batch, smallest of the budgets."""
    plans, space, ratios = runs(BERT, values), EXPERIMENT.setting["space"], []
    for budget in fixed("budgets_gib"):
        best = winner(plans, budget)
        whole = [{"tp": (tp,), "pp": (1,), "mbs": (best.batch * tp // fixed("gpus"),)} for tp in space["tp"]]
        cut = [
            {"tp": (tp,), "pp": (pp,), "mbs": (best.batch * tp * pp // (fixed("gpus") * m),)}
            for tp, pp, m in product(space["tp"], space["pp"][1:], space["micro_batches"])
            if tp * pp <= fixed("gpus") and best.batch * tp * pp % (fixed("gpus") * m) == 0
        ]
        rates = [0.0]
        for part in [*whole, *cut]:
            step = scenario(BERT, best.batch, budget, values)
            listed = part | {"zero": tuple(space["zero"]), "vpp": (1,), "cp": (1,)}
            try:
                rates.append(best.batch / simulated(planned(step | {"search": {"space": listed}})).step_time_s)
            except Infeasible:
                continue
        ratios.append(max(rates) / best.rate)
    return min(ratios)


def bert_winners(values: Values, nodes: int = 1) -> list[Run]:
    """The winner at each budget, smallest budget first."""
    plans = runs(BERT, values, nodes)
    return [winner(plans, budget) for budget in fixed("budgets_gib")]


def strategies(values: Values) -> float:
    """How many different layouts win."""
    return float(len({run.layout for run in bert_winners(values)}))


def rises(values: Values) -> float:
    """Smallest gain from the next larger budget."""
    return min(after.rate / before.rate for before, after in pairwise(bert_winners(values)))


def dp_share(values: Values) -> float:
    """Data-parallel size of the winner at the largest budget over that at the smallest."""
    found = bert_winners(values)
    return found[-1].dp / found[0].dp


def tp_with_fast_links(values: Values) -> float:
    """Tensor-parallel size of the winner with NVLink over that with PCIe, at the smallest budget."""
    return bert_winners(values | {"pcie_gb_per_s": 300})[0].tp / bert_winners(values)[0].tp


def stages_between_servers(values: Values) -> float:
    """Best with stages over best without on two servers, at the smallest budget."""
    plans, smallest = runs(BERT, values, 2), fixed("budgets_gib")[0]
    cut, whole = (winner([run for run in plans if (run.pp > 1) == staged], smallest) for staged in (True, False))
    return cut.rate / whole.rate


@lru_cache(maxsize=32)
def layer_costs(batch: int, pcie_gb_per_s: float) -> LayerCosts:
    """Seconds and bytes of each strategy in the part that depth does not change and in each of 32 layers."""
    own, values = EXPERIMENT.setting["layers"], central(EXPERIMENT.setting) | {"pcie_gb_per_s": pcie_gb_per_s}
    every = list(product(own["tp"], own["zero"], own["recompute"]))
    seconds, nbytes = np.full((33, len(every)), np.inf), np.full((33, len(every)), np.inf)
    for s, (tp, zero, recompute) in enumerate(every):
        dp = fixed("gpus") // tp
        if batch % dp or (zero and dp == 1):
            continue
        plan = {"tp": tp, "pp": 1, "zero": zero, "mbs": batch // dp, "recompute": {"policy": recompute}}
        half, full = (
            simulated(scenario(BERT | {"num_hidden_layers": depth}, batch, DEVICE_GIB, values, **plan))
            for depth in (16, 32)
        )
        for table, a, b in (
            (seconds, half.step_time_s, full.step_time_s),
            (nbytes, half.reserved_bytes, full.reserved_bytes),
        ):
            table[1:, s], table[0, s] = (b - a) / 16.0, 2.0 * a - b
    return LayerCosts(seconds, nbytes, between(every, batch, values))


def between(every: list[tuple[int, int, str]], batch: int, values: Values) -> Floats:
    """Seconds between layers of unlike tensor degrees: the wider group gathers the samples of its ranks, once."""
    cluster = catalog.resolve_cluster(ClusterRef.model_validate(scenario(BERT, batch, DEVICE_GIB, values)["cluster"]))
    out = np.zeros((len(every), len(every)))
    for (i, a), (j, b) in product(enumerate(every), enumerate(every)):
        wide, ranks = max(a[0], b[0]), max(a[0], b[0]) // min(a[0], b[0])
        if ranks > 1:
            gathered = (
                batch * wide / fixed("gpus") * fixed("seq_len") * 1280 * (2 if values["precision"] == "fp16" else 4)
            )
            place = Mesh({"tp": ranks}, ("tp",), cluster).placement("tp")
            out[i, j] = float(NetworkModel(cluster).collective("all_gather", gathered, place).alone_s)
    return out


def by_layer(values: Values, budget_gib: float) -> float:
    """Throughput with a strategy a layer over that of one for all, each at its best batch."""
    best = [0.0, 0.0]
    for batch in EXPERIMENT.setting["layers"]["batches"]:
        costs, budget = layer_costs(batch, values["pcie_gb_per_s"]), budget_gib * 2**30
        plain = uniform(costs, budget)
        best[0] = max(best[0], batch / plain.seconds if plain else 0.0)
        with suppress(Infeasible):
            best[1] = max(best[1], batch / assign(costs, budget).seconds)
    return best[1] / best[0]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "hybrid/bert": partial(gain, kind=BERT, layouts=PURE),
        "hybrid/vit": partial(gain, kind=VIT, layouts=PURE),
        "hybrid/planner": planner_agrees,
        "hybrid/three-dimensions": partial(gain, kind=BERT, layouts=THREE_DIMENSIONS),
        "memory/strategies": strategies,
        "memory/throughput": rises,
        "memory/dp": dp_share,
        "bandwidth/tp": tp_with_fast_links,
        "layers/never-worse": lambda v: min(by_layer(v, budget) for budget in fixed("budgets_gib")),
        "layers/tight": lambda v: by_layer(v, fixed("budgets_gib")[0]),
        "islands/pipeline": stages_between_servers,
        "islands/tp": lambda v: float(max(run.tp for run in bert_winners(v, nodes=2))),
    }


def plot(_: list[ClaimResult]) -> Any:
    """Samples a second over memory budgets: the best of all plans and each strategy alone."""
    names, panels = ("all plans", "data", "sharded data", "tensor", "pipeline"), {}
    for title, kind in (("BERT-Huge-32", BERT), ("ViT-Huge-32", VIT)):
        plans = runs(kind, central(EXPERIMENT.setting))
        of_each = [plans, *([run for run in plans if run.layout == layout] for layout in PURE)]
        panels[title] = {
            name: curve(fixed("budgets_gib"), lambda gib, own=own: winner(own, gib).rate)
            for name, own in zip(names, of_each, strict=True)
        }
    return beside(panels, "GiB of a device", "samples a second")
