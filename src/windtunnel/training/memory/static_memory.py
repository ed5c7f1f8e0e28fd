"""Bytes that live through a whole step on each stage: weights, gradients, optimizer state and buffers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.cost.memory_bound import OPTIMIZER_STATE_BYTES
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.parallel.tensor import split_operator
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.data_parallel.gradient_compression import CompressedExchange, Shapes
from windtunnel.training.memory.live_weights import gathers_by_weight, most_live_params
from windtunnel.training.stage_costs.adapters import (
    adapter_bytes,
    frozen_weight_bytes,
    matrix_share,
    stored_layer_bytes,
)
from windtunnel.training.stage_costs.stage_costs import StageCosts

_AT_ONCE = ("host", "pipelined")
"""Tier of the optimizer's state and way of its update where the host takes a whole shard at once."""
WORKSPACE_BYTES = 70e6
"""Workspace of the matrix products where weight gradients are allocated apart."""


@dataclass(frozen=True, slots=True)
class StaticMemory:
    """Bytes that live through the whole step, by stage and kind, and gradients that appear in the first backward."""

    by_kind: dict[str, Floats]
    """Kind → bytes of each pipeline stage, shape (p,)."""
    late_gradient_bytes: Floats
    """Bytes of gradients that appear in the first backward, by virtual stage in depth order, shape (K,)."""
    elsewhere: dict[str, Floats]
    """Class of tensors → bytes of each stage that offloading keeps outside the device, shape (p,)."""

    @property
    def total(self) -> Floats:
        """Sum over kinds, shape (p,)."""
        total: Floats = np.sum(list(self.by_kind.values()), axis=0)
        return total

    def on_stage(self, stage: int) -> dict[str, float]:
        """Kind → bytes of one stage."""
        return {name: float(size[stage]) for name, size in self.by_kind.items()}


@dataclass(frozen=True, slots=True)
class _StageParams:
    """Parameters of each pipeline stage on one model-parallel rank, shape (p,), before data parallelism cuts them."""

    dense: Floats
    expert: Floats
    shard_group: int
    expert_dp: int

    def bytes_over(self, ranks: int, width: float) -> Floats:
        """Bytes of one rank's shard over `ranks` replicas at `width` bytes a parameter."""
        expert_ranks = min(max(self.expert_dp, 1), ranks)
        return np.asarray((self.dense / ranks + self.expert / expert_ranks) * width, np.float64)

    def bytes(self, width: float, *, sharded: bool) -> Floats:
        """Bytes at `width` bytes a parameter: of a shard over the plan's group, or whole."""
        if sharded:
            return self.bytes_over(self.shard_group, width)
        return np.asarray((self.dense + self.expert) * width, np.float64)


@dataclass(frozen=True, slots=True)
class ParameterBytes:
    """Bytes per parameter before sharding."""

    weight: float
    state: float
    """Optimizer state and master copy of a trained parameter."""
    gradient: float


def static_memory(
    costs: StageCosts, plan: ResolvedPlan, training: TrainingSpec, behaviour: Behaviour, stage_of: Ints
) -> StaticMemory:
    """Bytes of weights, gradients, optimizer state and buffers on each stage under the plan's partition.

    Args:
        costs: Parameters, layers and messages of each virtual stage.
        plan: Sizes of the parallel axes, sharding and offloading.
        training: Optimizer and precision.
        behaviour: How the framework allocates.
        stage_of: Pipeline stage of each virtual stage, shape (K,).

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), section 3, with the byte counts of each framework.
    """
    params = _StageParams(
        dense=np.bincount(stage_of, weights=costs.dense_params, minlength=plan.pp).astype(np.float64),
        expert=np.bincount(stage_of, weights=costs.expert_params, minlength=plan.pp).astype(np.float64),
        shard_group=plan.shard_group,
        expert_dp=plan.expert_dp,
    )
    offload, element = plan.offload, behaviour.element_bytes
    width = bytes_per_parameter(costs, training, behaviour, plan.zero)
    buffer_width, late = _gradient_bytes(costs, plan, training, behaviour, width.gradient)
    shard_state = plan.zero >= 1 and (behaviour.shard_optimizer or plan.zero == 3)
    weights = params.bytes(width.weight, sharded=plan.zero == 3)
    states = params.bytes(width.state, sharded=shard_state)
    gradients = params.bytes(buffer_width, sharded=plan.zero >= 2)
    levels = plan.levels
    if levels is not None:
        if levels.params:  # a master copy stays with the optimizer state
            weights = params.bytes_over(levels.params, element) + (weights if width.weight > element else 0.0)
        if levels.params_again:
            weights = weights + params.bytes_over(levels.params_again, element)
        if levels.gradients:
            gradients = params.bytes_over(levels.gradients, buffer_width)
            late = late * plan.shard_group / levels.gradients
    if offload.gradients_in_place:
        gradients, late = 0.0 * gradients, 0.0 * late
    late_of_stage = np.bincount(stage_of, weights=late, minlength=plan.pp)
    elsewhere = {
        "params": weights * offload.params,
        "optimizer": states * offload.optimizer,
        "gradients": _host_gradients(costs, plan, behaviour, gradients + late_of_stage) * offload.gradients,
    }
    if behaviour.pinned_shards and offload.params and plan.zero == 3:
        rounded = _page_locked(costs, plan, behaviour, width.weight)
        shard = params.bytes(buffer_width or width.gradient, sharded=True)
        elsewhere["params"] = elsewhere["params"] * rounded
        elsewhere["gradients"] = np.maximum(elsewhere["gradients"], shard * offload.params * rounded)
    if behaviour.host_step_bytes and plan.zero < 3 and (offload.tier_of("optimizer"), offload.update) == _AT_ONCE:
        step = params.bytes(behaviour.host_step_bytes * costs.trainable_share, sharded=shard_state)
        elsewhere["optimizer"] = elsewhere["optimizer"] + step * offload.optimizer
    by_kind = {
        "weights": weights * (1.0 - offload.params),
        "gradients": gradients * (1.0 - offload.gradients),
        "optimizer": states * (1.0 - offload.optimizer),
    }
    if training.reference_passes and training.phase != "lora":
        by_kind["weights"] = by_kind["weights"] + params.bytes(element, sharded=plan.zero == 3)
    if behaviour.fsdp_doubles_experts and plan.zero == 3 and plan.ep > 1:
        ranks = min(max(plan.expert_dp, 1), plan.shard_group)
        beside = width.weight + buffer_width + width.state / ranks
        by_kind["experts beside their shards"] = params.expert * beside
    by_kind |= _offload_buffers(costs, plan, behaviour)
    by_kind |= reduce_buckets(plan, behaviour)
    stored = stored_layer_bytes(training, element)
    by_kind |= _gathered_layers(costs, plan, params, stage_of, behaviour, width=stored)
    by_kind |= _stage_buffers(costs, plan, behaviour, stage_of)
    by_kind |= _synchronisation_state(costs, plan, behaviour, params)
    if costs.dummy_wgrad_bytes.any():
        by_kind["workspace"] = costs.dummy_wgrad_bytes + WORKSPACE_BYTES
    by_kind = {name: size for name, size in by_kind.items() if size.any()}
    return StaticMemory(by_kind, late * (1.0 - offload.gradients), elsewhere)


def _page_locked(costs: StageCosts, plan: ResolvedPlan, behaviour: Behaviour, width: float) -> float:
    """Bytes that page-locked pieces of shards take, as a multiple of the shards: each is rounded up to a power of two.

    Source: PyTorch `aten/src/ATen/core/CachingHostAllocator.h` (`PowerOf2Ceil` of every size); FSDP pins a shard of
    each weight (`_fsdp_param.py`) or of each layer (`_flat_param.py`).
    """
    graph = costs.graph
    repeats = Counter(kind for kinds in costs.block_kinds for kind in kinds)
    blocks = [(graph.embedding, 1), (graph.head, 1)] + [(graph.blocks[kind], count) for kind, count in repeats.items()]
    taken = exact = 0.0
    for block, count in blocks:
        weights = [params for op in block.operators if (params := split_operator(op, plan).params) > 0]
        for params in [sum(weights)] if behaviour.pinned_shards == "layer" else weights:
            size = params * width / plan.shard_group
            if size >= 1.0:
                taken += count * 2.0 ** math.ceil(math.log2(size))
                exact += count * size
    return taken / exact if exact else 1.0


def bytes_per_parameter(costs: StageCosts, training: TrainingSpec, behaviour: Behaviour, zero: int) -> ParameterBytes:
    """Bytes of weight, optimizer state and gradient for each parameter."""
    master = behaviour.master_copy_bytes(training.master_weights)
    state = behaviour.state_bytes if training.optimizer == "adam" else OPTIMIZER_STATE_BYTES[training.optimizer]
    if training.optimizer == "muon":  # one momentum for matrices, Adam's two moments for everything else
        state += 4.0 * (1.0 - matrix_share(costs.graph))
    lora = training.phase == "lora"
    trainable, element = costs.trainable_share, behaviour.element_bytes
    width = adapter_bytes(behaviour)
    weight = behaviour.weight_bytes
    if lora:
        weight = frozen_weight_bytes(costs.graph, training, behaviour) + width * trainable
    if not lora and element == 2.0 and behaviour.param_bytes == 4.0 and training.master_weights:
        # the weights are the master copy (FSDP)
        weight, master = max(master, 2.0), 0.0
    gradient = behaviour.gradient_width(zero) * trainable
    if lora and width > element:  # adapters in fp32: their gradients and moments have their format
        gradient, master = width * trainable, 0.0
        state = max(state, 8.0) if training.optimizer == "adam" else state
    if training.optimizer_in_backward:
        gradient = 0.0
    return ParameterBytes(weight, (state + master) * trainable, gradient)


def _gradient_bytes(
    costs: StageCosts, plan: ResolvedPlan, training: TrainingSpec, behaviour: Behaviour, width: float
) -> tuple[float, Floats]:
    """Split gradients into buffers that persist and tensors that the first backward allocates.

    Returns:
        Bytes per parameter of the buffers, and bytes of the late gradients by virtual stage, shape (K,).
    """
    if behaviour.grads_persist:
        return width, np.zeros(len(costs.dense_params))
    reduced_once = not plan.reshard_after_forward or (plan.m > 1 and not training.gradient_accumulation_sync)
    reduced_once = reduced_once and not plan.gather_block  # FSDP under a pipeline, or with `no_sync`, scatters once
    whole = plan.zero < 2 or (plan.zero == 3 and reduced_once)
    group = plan.shard_group
    expert_group = min(max(plan.expert_dp, 1), group)
    late = costs.dense_params * width / (1 if whole else group) + costs.expert_params * width / (
        1 if whole else expert_group
    )
    buckets = behaviour.grad_buckets and plan.zero == 0 and plan.dp * plan.cp > 1
    return (width if buckets else 0.0), late


def _host_gradients(costs: StageCosts, plan: ResolvedPlan, behaviour: Behaviour, gradients: Floats) -> Floats:
    """Bytes that the offloaded gradients of each stage would take outside the device, shape (p,)."""
    offload = plan.offload
    if offload.update == "beside_backward" and offload.optimizer == 1.0 and plan.m == 1:
        # each piece is used up as it arrives
        piece = float(offload.prefetch_layers) * costs.layer_params * behaviour.element_bytes / plan.shard_group
        return np.full(plan.pp, piece)
    width = behaviour.gradient_width(plan.zero)
    return gradients * (behaviour.host_grad_bytes or width) / width


def _offload_buffers(costs: StageCosts, plan: ResolvedPlan, behaviour: Behaviour) -> dict[str, Floats]:
    """Device buffers of layers whose weights come from, or whose gradients go to, memory outside the device."""
    offload = plan.offload
    in_use = float(offload.prefetch_layers) * costs.layer_params * behaviour.element_bytes
    buffers: dict[str, Floats] = {}
    if offload.gradients and not reduce_buckets(plan, behaviour):
        # computation writes these while the gradients before them are being copied
        size = in_use / (plan.shard_group if plan.zero >= 2 else 1) * offload.gradients
        buffers["gradients on their way"] = np.full(plan.pp, size)
    if offload.params and plan.zero < 3:  # layers that are in use or come in ahead
        buffers["fetched layers"] = np.full(plan.pp, in_use * offload.params)
    return buffers


def reduce_buckets(plan: ResolvedPlan, behaviour: Behaviour) -> dict[str, Floats]:
    """Buckets into which ZeRO copies gradients, one of them being filled while the other is reduced.

    Source: DeepSpeed `runtime/zero/stage_1_and_2.py` (`setup_buckets`) and `stage3.py` (one bucket); both are allocated
    at their whole size whatever the model's.
    """
    if not behaviour.reduce_bucket_params or plan.zero == 0:
        return {}
    params = plan.switches.ddp_bucket_size or behaviour.reduce_bucket_params
    copies = 2.0 if plan.overlap_grad_reduce and plan.zero < 3 else 1.0
    return {"reduce buckets": np.full(plan.pp, copies * params * behaviour.element_bytes)}


def _gathered_layers(
    costs: StageCosts, plan: ResolvedPlan, params: _StageParams, stage_of: Ints, behaviour: Behaviour, *, width: float
) -> dict[str, Floats]:
    """Buffers of whole weights that ZeRO-3 or FSDP gathers from the shards, `width` bytes each as they are stored."""
    stages = plan.pp
    if gathers_by_weight(costs, plan, behaviour) and plan.reshard_after_forward and not plan.gather_block:
        return {"gathered layers": np.full(stages, most_live_params(costs, plan, behaviour) * width)}
    if plan.gather_block:  # a chunk in each direction, and the gradients of the one that runs backward
        largest = np.zeros(stages)
        np.maximum.at(largest, stage_of, costs.dense_params + costs.expert_params)
        gradient = behaviour.grad_buffer_bytes * costs.trainable_share
        return {"gathered layers": largest * (min(plan.vpp, 2) * width + gradient)}
    if plan.zero == 3 and plan.reshard_after_forward:
        gathered = {"gathered layers": np.full(stages, 2.0 * costs.layer_params * width)}
        if plan.gathered_layers > 2:
            ahead = (plan.gathered_layers - 2.0) * costs.layer_params * width
            gathered["layers gathered ahead"] = np.full(stages, ahead)
        return gathered
    if plan.zero == 3:
        return {"gathered layers": params.bytes(width, sharded=False)}
    return {}


def _stage_buffers(costs: StageCosts, plan: ResolvedPlan, behaviour: Behaviour, stage_of: Ints) -> dict[str, Floats]:
    """Receive buffers for the inputs and gradients of every micro-batch, where the framework keeps them."""
    if not behaviour.keeps_stage_outputs or plan.pp == 1:
        return {}
    ends = np.full(len(costs.dense_params), 2.0)
    ends[0] -= 1.0
    ends[-1] -= 1.0
    buffers = np.bincount(stage_of, weights=ends, minlength=plan.pp) * plan.m * costs.p2p_bytes
    return {"stage buffers": np.asarray(buffers, np.float64)}


def _synchronisation_state(
    costs: StageCosts, plan: ResolvedPlan, behaviour: Behaviour, params: _StageParams
) -> dict[str, Floats]:
    """Error feedback of compressed gradients, and the outer state of local SGD."""
    state: dict[str, Floats] = {}
    trainable, compression = costs.trainable_share, plan.compression.gradients
    if compression is not None and plan.dp * plan.cp * plan.copies > 1:
        shapes = Shapes.of(costs.graph, plan, compression)
        exchange = CompressedExchange(compression, shapes, 4.0, costs.network.cluster.device, Coefficients())
        whole = plan.zero == 0 or not behaviour.shard_optimizer
        kept = trainable * exchange.kept_bytes(float(plan.shard_group), whole=whole)
        state["error feedback"] = np.asarray(params.dense * kept, np.float64)
    if plan.local_steps is not None:  # weights at the start of the round, their momentum, what is sent
        kept = 4.0 + 4.0 * plan.local_steps.momentum + behaviour.grad_buffer_bytes * plan.local_steps.late
        state["outer state"] = np.asarray((params.dense + params.expert) * trainable * kept, np.float64)
    return state
