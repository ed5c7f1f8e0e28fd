"""Fitted and data-sheet coefficients of one (software, device) pair, read from `catalog/coefficients/*.yaml`.

Lookup falls back from the device to its generation, to the nearest generation of its vendor that was measured, and to
the generic values; what was used is recorded with its confidence, so that a prediction can say where each number came
from.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from windtunnel.cost.coefficient_files import coefficient_file, values
from windtunnel.cost.pooled import pooled_factors
from windtunnel.cost.sites import (
    ANYWHERE,
    FABRIC_COEFFICIENTS,
    SITE_COEFFICIENTS,
    AppliedSection,
    Where,
    applied_sections,
    where_of,
)
from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import DeviceSpec, Profile
from windtunnel.stacks.stack_files import lineage


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """How one software generation uses one device. Fractions refer to data-sheet peaks; times are in seconds."""

    gemm_fraction: dict[str, float] = field(default_factory=lambda: {"bf16": 0.76, "fp8": 0.66, "fp4": 0.6})
    """Maximum achievable matrix throughput by format ("mamf"); fp16 and tf32 use the bf16 entry."""
    gemm_k0: float = 55.0
    gemm_tile_c: float = 10.0
    gemm_wave: float = 0.4
    gemm_bytes_fraction: float = 0.8
    gemm_floor_s: float = 2e-6
    accumulate_exposed: float = 0.4
    """Share of gradient accumulation's traffic that a weight gradient's tiles wait for in their epilogue."""
    grouped_fraction: float = 0.85
    """Further factor on grouped GEMMs."""
    group_s: float = 2e-6
    """Seconds per group of a grouped GEMM."""
    attention_fraction: dict[str, float] = field(
        default_factory=lambda: {"flash1": 0.3, "flash2": 0.4, "flash3": 0.6, "cudnn": 0.65, "sdpa": 0.4}
    )
    attention_ramp: float = 800.0
    """Sequence length at which half of the rate is reached."""
    attention_backward: float = 0.75
    """Backward rate over forward rate."""
    ring_overhead: float = 0.0
    """Extra attention time under ring context parallelism over n ranks, times (n - 1)/n: half-size kernels, waits."""
    attention_floor_s: float = 10e-6
    attention_block: float = 0.0
    """Side of the blocks of scores that a kernel computes whole, whatever a mask hides inside them."""
    attention_head_exponent: float = 0.5
    memory_fraction: float = 0.7
    softmax_fraction: float = 0.55
    """Bandwidth of an unfused softmax over that of streaming kernels: 0.485 against 0.88 of the data sheet on A100."""
    scan_fraction: float = 0.12
    host_kernel_s: float = 6e-6
    operator_host_s: float = 1.75e-5
    """Host time of a single PyTorch operator that Python issues; torchtune's recipes, whose layers are nothing else,
    show 1.75e-5 (fitted/torchtune.yaml). `host_kernel_s` is a launch within a module of the framework."""
    host_power: float = 4.0
    """Exponent of the smooth maximum of host and device time (jitter)."""
    host_drained_power: float = 2.0
    """`host_power` of layers whose host waits for the device, and so loses its lead at each read."""
    moe_sync_s: float = 0.0
    """Latency of the device-to-host reads of one dropless mixture layer and micro-batch, next to its launches."""
    optimizer_fraction: float = 0.7
    step_overhead_s: float = 2e-3
    scale_up_scale: float = 1.0
    """Factor on the link family's efficiency inside the scale-up domain (see `network.coefficients`)."""
    scale_out_scale: float = 1.0
    gather_exposed: float = 0.0
    """Share of a sharded layer's parameter gather and gradient reduction that its schedule leaves uncovered: a compiled
    loop over layers cannot fetch the next iteration's first weights, and not every collective is asynchronous."""
    partial_node_scale: float = 1.0
    """Factor on the NIC rate of groups that have several, but not all, ranks of a node (see `network.clock.rates`)."""
    collective_skew_s: float = 0.0
    """Rank skew and dispatch added to each collective."""
    multi_node_host: float = 1.0
    """Host time of a launch in a job over several nodes over that in a job on one."""
    multi_node_skew: float = 1.0
    """`collective_skew_s` in a job over several nodes over that in a job on one."""
    quantise_bytes: dict[str, float] = field(
        default_factory=lambda: {
            "fp8": 4.0,
            "fp8_rowwise": 8.0,
            "fp8_block": 6.0,
            "mxfp8": 6.0,
            "mxfp4": 10.0,
            "nvfp4": 10.0,
            "int8": 4.0,
        }
    )
    transpose_bytes: dict[str, float] = field(default_factory=dict)
    """Matrix format → bytes per element of a tensor that arrives quantised and has to be transposed as well."""
    rowwise_fraction: float = 0.75
    unaligned_fraction: float = 0.29
    """Rate of a matrix product over the aligned one where its rows are no whole 16 bytes (see `cost.gemm.aligned`)."""
    unaligned_batched_fraction: float = 0.19
    """The same of strided batches of products, as the scores and contexts of unfused attention are. CUDA 11.6, 384
    products of 1,024 x 1,024 x 140 against 512 of 1,024 x 1,024 x 128 (132 TFLOP/s): 0.41 in fp16, 0.092 in bf16; the
    geometric mean. Source: github.com/pytorch/pytorch/issues/83272."""
    board_j_per_flop: float = 0.0
    """Energy of the board over 16-bit operations in sustained products; 0: not measured (see `cost.clock`)."""
    reference_limit: float = 0.0
    """Share of the 16-bit peak that the power of the generation's reference board allows; 0: not limited by power."""
    device_level: frozenset[str] = frozenset()
    """Fractions (`gemm_fraction.bf16`) that were set for the device itself, not for its generation."""
    grades: dict[str, str] = field(default_factory=dict)
    """Coefficient → fitted | analytic | assumed."""
    basis: str = "generic"
    pooled: tuple[str, ...] = ()
    """Coefficients that nobody measured on this pair and that partial pooling scaled."""

    def across_nodes(self) -> Coefficients:
        """Coefficients with the host time and rank skew of a job that spans several nodes."""
        if self.multi_node_host == self.multi_node_skew == 1.0:
            return self
        return replace(
            self,
            host_kernel_s=self.host_kernel_s * self.multi_node_host,
            collective_skew_s=self.collective_skew_s * self.multi_node_skew,
        )


_KNOWN = frozenset(f.name for f in fields(Coefficients))


def entry_of(base: Coefficients, name: str) -> float | None:
    """Value of `gemm_fraction.bf16` or `memory_fraction`, None where there is none."""
    key, _, entry = name.partition(".")
    value = getattr(base, key, None)
    found = value.get(entry) if isinstance(value, dict) else value
    return None if found is None else float(found)


def with_entry(base: Coefficients, name: str, value: float, grade: str) -> Coefficients:
    """Coefficients with one value replaced; `gemm_fraction.bf16` is one entry of a table."""
    key, _, entry = name.partition(".")
    new: Any = {**getattr(base, key), entry: value} if entry else value
    return replace(base, **{key: new}, grades={**base.grades, name: grade})


def resolve(
    framework: str,
    device_id: str,
    generation: str,
    kind: str = "",
    *,
    where: Where = ANYWHERE,
    fits: bool = True,
    unseen: bool = False,
    pooled: dict[str, Any] | None = None,
) -> Coefficients:
    """Coefficients of a framework on a device, whatever profile the device has.

    The same key at a more specific level (kind, generation, device) wins over a later file's less specific one. What
    no fit says here is the value without a fit, scaled by what software and generations share.

    Args:
        framework: software generation.
        device_id: catalogue id, may be empty.
        generation: generation of the device, may be empty.
        kind: kind of the device, may be empty.
        where: site and fabric of the cluster.
        fits: whether fitted values count.
        unseen: whether the framework's own starting values are left out too, as if nobody had measured it.
        pooled: effects to use instead of the shipped ones, estimated without the same rows.
    """
    found, fitted = Coefficients(), False
    elsewhere: frozenset[str] = frozenset()
    levels = (kind, generation, device_id)
    for applied in applied_sections(framework, levels, where, fits=fits, unseen=unseen):
        fitted = fitted or applied.fitted
        elsewhere |= applied.away & FABRIC_COEFFICIENTS
        before = found.collective_skew_s
        found = _with_section(found, applied, of_device=applied.level == device_id)
        if "multi_node_skew" in applied.away:  # across nodes, the site's skew and its factor go together
            found = replace(found, multi_node_skew=before / found.collective_skew_s)
        if applied.level != "default":
            of = f", which stands in for {generation}" if applied.inherited else ""
            found = replace(found, basis=f"{applied.file} on {applied.level}{of}")
    effects = coefficient_file("fitted/pooled").get("pooled", {}) if pooled is None else pooled
    if not device_id or not effects:
        return found
    if fitted:
        return with_pooled(found, {name: effects[name] for name in elsewhere & set(effects)}, framework, generation)
    found = with_pooled(found, effects, framework, generation)
    return replace(found, basis=f"data sheet of {generation}, scaled as measured software and generations are")


def _with_section(base: Coefficients, applied: AppliedSection, *, of_device: bool) -> Coefficients:
    """Coefficients with one level of a file laid over them; `of_device` where the level is the device itself."""
    section = applied.entries
    merged: dict[str, Any] = {}
    device_level = base.device_level
    for name, value in values(section).items():
        key, _, entry = name.partition(".")  # `gemm_fraction.bf16` is one entry of a table
        if key not in _KNOWN:
            raise KeyError(f"{applied.file}: coefficient {key} is unknown")
        table = {entry: value} if entry else value
        if of_device:
            entries = [entry] if entry else value if isinstance(value, dict) else ()
            device_level = device_level | {f"{key}.{e}" for e in entries}
        merged[key] = {**merged.get(key, getattr(base, key)), **table} if isinstance(table, dict) else value
    grades = {
        name: grade_of(given.get("grade", "analytic") if isinstance(given, dict) else "analytic", applied)
        for name, given in section.items()
    }
    merged["device_level"] = device_level
    return replace(base, **merged, grades={**base.grades, **grades})


def grade_of(grade: str, applied: AppliedSection) -> str:
    """Confidence of an entry: what was measured on another generation is no measurement of this one."""
    return "analytic" if applied.inherited and grade in ("measured", "fitted") else grade


def with_pooled(base: Coefficients, effects: dict[str, Any], framework: str, generation: str) -> Coefficients:
    """Coefficients that nobody measured here, scaled by what software and generation share with others.

    Source: effects of `cost.pooled`. Valid for: names in `effects`; values stay within their bounds.
    """
    for name, factor in pooled_factors(effects, lineage(framework)[-1], framework, generation).items():
        value, entry = entry_of(base, name), effects[name]
        if name in SITE_COEFFICIENTS:
            continue
        if value is not None and factor != 1.0:
            base = with_entry(base, name, min(max(value * factor, entry["low"]), entry["high"]), "analytic")
            base = replace(base, pooled=(*base.pooled, name))
    return base


@cache
def _resolved(framework: str, device_id: str, generation: str, kind: str, where: Where) -> Coefficients:
    return resolve(framework, device_id, generation, kind, where=where)


def coefficients(framework: str, device: DeviceSpec, cluster: ClusterSpec | None = None) -> Coefficients:
    """Coefficients for a framework on a device, from the most specific entry available; a profile stands above all.

    Args:
        framework: software generation.
        device: what it runs on.
        cluster: nodes that the device stands in; what a fit says of sites and networks holds where its rows ran
            (`cost.sites`).
    """
    found = _resolved(framework, device.id, device.generation, device.kind, where_of(framework, cluster))
    return found if device.profile is None else with_profile(found, device.profile, device.id)


def profile_names() -> list[str]:
    """Coefficients that a profile may state; of tables (`gemm_fraction`), any entry after a dot."""
    plain = Coefficients()
    values = {f.name: getattr(plain, f.name) for f in fields(Coefficients) if f.name != "grades"}
    return [name for name, value in values.items() if isinstance(value, (dict, float))]


def with_profile(base: Coefficients, profile: Profile, device_id: str) -> Coefficients:
    """Coefficients with what was measured on the machine itself laid over them.

    Raises:
        BadInput: names that are no coefficients.
    """
    known = set(profile_names())
    wrong = [name for name in profile.coefficients if name.partition(".")[0] not in known]
    if wrong:
        where = "cluster.device.profile.coefficients"
        raise BadInput(
            Problem(f"{where}.{name}", "is no coefficient", nearest=nearest_name(name, known)) for name in wrong
        )
    for name, entry in profile.coefficients.items():
        base = with_entry(base, name, entry.value, entry.grade)
    level = frozenset(name for name in profile.coefficients if "." in name)
    return replace(base, basis=f"measured on {device_id}", device_level=base.device_level | level, pooled=())
