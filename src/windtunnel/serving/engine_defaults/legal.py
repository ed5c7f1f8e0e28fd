"""What an engine's release refuses of a pool, or takes otherwise: rules of `stacks/serving` about one instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from windtunnel.arrays import Mask
from windtunnel.errors import ProblemList
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.stacks.serving_rules import ServingRule, broken, serving_rules

PLACES = {"plan": "{pool}.plan", "limits": "{pool}.limits", "kv": "{pool}.kv"}
"""Head of a fact's name → where it stands in a scenario; what is not here stands below `serving`."""

LIMITS = ("limits.max_num_seqs", "limits.max_num_batched_tokens")
"""Facts that a search varies together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Limits of an instance, counted as its engine counts them, and its pages."""

    sequences: int
    tokens: int
    chunked: bool
    block_size: int | None
    """None where the engine chooses by itself."""
    max_model_len: int
    """Longest prompt and answer together; 0: unbounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A rule that a pool breaks."""

    field: str
    """Place in the scenario."""
    value: Any
    rule: str
    """What is allowed, and who says so."""
    effect: Literal["refuses", "adjusts", "lifted"]
    """Whether the engine refuses, takes another value, or refuses unless a switch that no scenario states is set."""


def breaches(
    engine: str, version: tuple[int, ...], facts: dict[str, Any], where: str = "serving.pools[0]"
) -> Iterator[Breach]:
    """Rules of a release that a pool breaks.

    Args:
        engine: as scenarios name it.
        version: numbers of the release; empty means the newest.
        facts: of `facts_of`.
        where: place of the pool in the scenario.
    """
    for rule in broken(engine, version, facts):
        value = facts[rule.field]
        yield Breach(field=_place(rule, where), value=value, rule=rule.words(facts), effect=rule.effect)


def refuse(
    engine: str, version: tuple[int, ...], facts: dict[str, Any], where: str, problems: ProblemList
) -> tuple[Breach, ...]:
    """Add a problem for each rule that the engine refuses by; the others are returned."""
    found = tuple(breaches(engine, version, facts, where))
    for one in found:
        if one.effect == "refuses":
            problems.add(one.field, one.value, one.rule)
    return tuple(one for one in found if one.effect != "refuses")


def legal_limits(
    engine: str, version: tuple[int, ...], facts: dict[str, Any], sequences: Sequence[int], tokens: Sequence[int]
) -> Mask:
    """(S, T): limits of a batch, of S numbers of sequences and T of tokens, that break no rule of their own.

    Args:
        engine: as scenarios name it.
        version: numbers of the release; empty means the newest.
        facts: of `facts_of`, whatever their limits.
        sequences: S values of `max_num_seqs`.
        tokens: T values of `max_num_batched_tokens`.
    """
    rules = [rule for rule in serving_rules(engine, version) if rule.field in LIMITS]
    out = np.ones((len(sequences), len(tokens)), np.bool_)
    for i, j in np.ndindex(out.shape) if rules else ():
        own = facts | dict(zip(LIMITS, (sequences[i], tokens[j]), strict=True))
        out[i, j] = not any(rule.breaks(own) for rule in rules)
    return out


def _place(rule: ServingRule, where: str) -> str:
    head, _, rest = rule.field.partition(".")
    return f"{PLACES.get(head, f'serving.{head}').format(pool=where)}.{rest}"


def facts_of(
    serving: ServingSpec, pool: PoolSpec, model: ModelSpec, cluster: ClusterSpec, batch: Batch
) -> dict[str, Any]:
    """Facts that rules may name, of one pool.

    Args:
        serving: serving section of the scenario.
        pool: the pool.
        model: what is served.
        cluster: group of the cluster that the pool is on.
        batch: limits of an instance.
    """
    whole = None if batch.chunked else batch.max_model_len or None  # prompts at once: the longest has to fit
    return (
        _plan_facts(pool, model)
        | _model_facts(serving, model)
        | _speculation_facts(serving, pool, model)
        | {
            "limits.max_num_seqs": batch.sequences,
            "limits.max_num_batched_tokens": batch.tokens,
            "limits.chunked_prefill": batch.chunked,
            "limits.max_model_len": pool.limits.max_model_len or whole,
            "kv.block_size": batch.block_size,
            "precision.weights": serving.precision.weights or "bf16",
            "precision.experts": serving.precision.experts,
            "precision.kv_cache": serving.precision.kv_cache,
            "device.generation": cluster.device.generation,
            "cluster.devices_per_node": cluster.devices_per_node,
            "plan.spans_nodes": pool.plan.num_devices > cluster.devices_per_node,
        }
    )


def _plan_facts(pool: PoolSpec, model: ModelSpec) -> dict[str, Any]:
    plan = pool.plan
    return {
        "plan.tp": plan.tp,
        "plan.pp": plan.pp,
        "plan.dp": plan.dp,
        "plan.ep": plan.ep,
        "plan.dcp": plan.dcp if plan.dcp > 1 else None,
        "plan.devices": plan.num_devices,
        "plan.devices_a_rank": plan.tp * plan.pp,
        "plan.ranks": plan.tp * plan.dp * plan.cp,
        "plan.spread_experts": plan.ep > 1,
        "plan.context_parallel": plan.cp > 1,
        "plan.attention_dp": plan.dp > 1,
        "plan.ranks_a_kv_head": max(plan.tp // model.kv_heads, 1) if model.kv_heads else None,
    }


def _model_facts(serving: ServingSpec, model: ModelSpec) -> dict[str, Any]:
    load = serving.expert_load
    more = load.num_redundant_experts if load is not None else 0
    return {
        "model.num_attention_heads": model.num_attention_heads or None,
        "model.num_key_value_heads": model.kv_heads or None,
        "model.mla": model.is_mla,
        "model.moe": bool(model.num_experts),
        "model.max_position_embeddings": model.max_position_embeddings or None,
        "model.num_nextn_predict_layers": model.num_nextn_predict_layers or None,
        "model.physical_experts": model.num_experts + more if model.num_experts else None,
        "experts.eplb": load is not None and load.eplb,
    }


def _speculation_facts(serving: ServingSpec, pool: PoolSpec, model: ModelSpec) -> dict[str, Any]:
    how = serving.speculation
    if how is None:
        return {}
    return {
        "speculation.method": how.method,
        "speculation.tokens": how.tokens,
        "speculation.beyond_layers": how.tokens > (model.num_nextn_predict_layers or how.tokens),
        "speculation.draft_tp": how.draft_tp,
        "speculation.draft_cut": bool(how.draft_tp and how.draft_tp > 1),
    }
