"""What is served: engine, pools of instances, traffic and objectives. Words are vLLM's where it has one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.attention_pool import AttentionPoolSpec
from windtunnel.specs.autoscale import AutoscaleSpec
from windtunnel.specs.base import Bytes, Count, Inconsistent, Named, Release, Seconds, Spec, or_installed
from windtunnel.specs.experts import ExpertLoadSpec, ExpertStorageSpec
from windtunnel.specs.kv_tiers import KvTier, SimilarSpec
from windtunnel.specs.mesh import MeshSpec
from windtunnel.specs.sm_split import SmSplitSpec
from windtunnel.specs.sparse_reads import SparseReadsSpec
from windtunnel.specs.speculation import SpeculationSpec
from windtunnel.specs.traffic import TrafficSpec
from windtunnel.specs.transfer import TransferSpec

Engine = Annotated[Literal["vllm", "sglang", "trtllm", "lmdeploy", "generic"], or_installed("engines")]
WeightFormat = Literal["bf16", "fp16", "fp8", "fp8_block", "int8", "w4a16", "w4a8", "nvfp4", "mxfp4", "q4_0"]
CacheFormat = Literal["bf16", "fp16", "fp8", "int8"]


class ServingPrecision(Spec):
    """Formats by tensor class. `weights` covers linear layers."""

    weights: WeightFormat | None = None
    """Absent: as the checkpoint is released, which the catalogue knows; 16 bits where it lists nothing else."""
    experts: WeightFormat | None = None
    """Routed experts; absent: as `weights`."""
    attention: WeightFormat | None = None
    """Linear layers of attention and of recurrent layers; absent: as `weights`."""
    ends: WeightFormat | None = None
    """Embedding and head; absent: 16 bits."""
    kv_cache: CacheFormat = "bf16"
    """Format of cached keys and values."""


class ServingPlan(Spec):
    """How one instance is spread over devices: tp · dp · pp · cp of them."""

    tp: Count = 1
    """Tensor parallelism: devices that share each layer's matrices."""
    pp: Count = 1
    """Pipeline parallelism: stages that the layers are cut into."""
    dp: Count = 1
    """Ranks of attention data parallelism: attention and its cache are replicated, experts are shared."""
    ep: Count = 1
    """Ranks that experts are spread over whole; divides tp · dp. The rest cuts each expert."""
    cp: Count = 1
    """Ranks that cut prompts along their tokens and share the cache; weights are on each."""
    dcp: Count = 1
    """Ranks of the tensor axis that keep different tokens where they would keep copies (vLLM's
    `decode_context_parallel_size`)."""

    balance_prompts: bool = False
    """Whether ranks of attention data parallelism cut the attention of all prompts by heads instead of computing their
    own: each projects its tokens, gathers what others projected, and hands outputs back (CloudMatrix's hybrid of
    sequence and tensor parallelism). Ranks then have as much to do whatever prompts they got."""
    all_reduce: Literal["auto", "in_switch"] = "auto"
    """How ranks of the tensor axis sum: by the engine's kernel or the library's, whichever is sooner, or by a kernel of
    the engine that lets the switch add (multimem instructions; needs links that reduce in the switch)."""

    collective_library: str | None = None
    """Library that sums over the tensor axis where the engine's own kernel does not: as `plan.collective_library`."""

    @property
    def num_devices(self) -> int:
        """Devices of one instance."""
        return self.tp * self.pp * self.dp * self.cp


class ServingLimits(Spec):
    """Batch limits and memory knobs of an instance. Absent: the engine's own default."""

    max_num_seqs: Count | None = None
    """Sequences that run at once, at most."""
    max_num_batched_tokens: Count | None = None
    """Tokens that one iteration computes, at most."""
    max_model_len: Count | None = None
    """Tokens of a prompt and its answer together, at most."""
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    """vLLM: share of device memory for weights, activations and cache."""
    mem_fraction_static: float | None = Field(default=None, gt=0, le=1)
    """SGLang: share of device memory for weights and cache."""
    free_gpu_memory_fraction: float | None = Field(default=None, gt=0, le=1)
    """TensorRT-LLM: share of what weights and activations leave free that the cache takes."""
    chunked_prefill: bool | None = None
    """Whether prompts are computed in chunks next to decoding."""
    cuda_graphs: bool | None = None
    """Whether decoding replays CUDA graphs."""
    cuda_graph_sizes: tuple[Count, ...] = ()
    """Sequences of the captured graphs: a decode step is padded to the next of them. Absent: graphs of every size."""
    max_cudagraph_capture_size: int | None = Field(default=None, ge=0)
    """Tokens up to which iterations with prompts run captured graphs too (vLLM's name). Absent: the engine's own."""
    host_ahead: bool = False
    """Whether the host schedules and prepares the next batch while the device computes. What engines do of it by
    themselves is in their coefficients; this is for engines without coefficients of their own."""
    stream_interval: Count | None = None
    """Decode steps between two messages to the client."""
    scheduler_interval: Count | None = None
    """Decode steps between two looks at arrivals."""


class KvSpec(Spec):
    """The key-value cache."""

    block_size: Count | None = None
    """Tokens; absent: the engine's default."""
    prefix_caching: bool | None = None
    """Whether blocks of equal prefixes are kept and shared; absent: as the engine's release does."""
    num_blocks: Count | None = None
    """Blocks of an instance, where they are known; absent: predicted from memory."""
    swap_space_bytes: Bytes = 0.0
    """Host memory for preempted sequences; 0: they are computed again."""
    swap: SwapSpec | None = None
    """Absent: at the rate of PCIe, both ways waited for when a request returns."""
    tiers: tuple[KvTier, ...] = ()
    """Where blocks go that are let go, from the fastest level on; absent: they are forgotten. Needs prefix caching."""
    lending: bool = False
    """Instances of the pool lend each other blocks; attention over lent blocks is computed where they lie."""
    lending_kept: float = Field(default=0.1, ge=0, lt=1)
    """Share of its blocks that an instance keeps for its own requests."""
    similar: SimilarSpec | None = None
    """Reuse of keys and values of requests that resemble each other without a common prefix."""
    tier_loading: Literal["layers", "whole"] = "layers"
    """Whether layers of a prompt run while later ones are still loaded, or wait until all are there."""
    tier_prefetch: bool = False
    """While a request is queued, what lies below the first level is read into it."""

    @model_validator(mode="after")
    def _room(self) -> KvSpec:
        if self.swap is not None and not self.swap_space_bytes:
            raise Inconsistent([Problem("swap", "needs room: state swap_space_bytes")])
        return self


class SwapSpec(Spec):
    """How caches of preempted requests are copied to host memory and back."""

    group_blocks: Count = 1
    """Blocks that lie together and are copied at once."""
    copy_s: Seconds = 8e-6
    """Least seconds from the start of one copy to that of the next: a call and its DMA. Assumed."""
    asynchronous: bool = False
    """Copies run next to iterations; without, the next iteration waits for them."""
    reuse: bool = False
    """Host copies are kept while a request lives: only blocks that are new since then leave again."""


class PoolSpec(Spec):
    """Instances that do the same work under the same plan."""

    role: Literal["mixed", "prefill", "decode"] = "mixed"
    """What its instances compute: prompts and answers, prompts alone, or answers alone."""
    group: int | str | None = None
    """Group of a mixed cluster that its devices are of: its number, or its device's id where only one group has it."""
    replicas: Count = 1
    """Instances of the pool."""
    plan: ServingPlan = ServingPlan()
    """How one instance is spread over devices."""
    sm_split: SmSplitSpec | None = None
    """Prompts and answers side by side, each on a share of the SMs; absent: one after the other."""
    attention_pool: AttentionPoolSpec | None = None
    """Devices that keep the cache and compute decode attention; set by the technique `lamina`."""
    limits: ServingLimits = ServingLimits()
    """What a batch may hold."""
    kv: KvSpec = KvSpec()
    """Blocks and reuse of the KV cache."""
    policy: str | None = None
    """How batches are formed: a policy id; absent: the engine's own."""
    queue: Named = "fcfs"
    """Who is served first: a discipline's id (fcfs, priority, vtc, lpm …), or an id with its knobs."""
    admission: Named | None = None
    """Which requests are shed when they arrive: a rule's id, or an id with its knobs; absent: none."""


class SloSpec(Spec):
    """What a request must meet to count as good. Absent parts always hold."""

    ttft_s: Seconds | None = Field(default=None, gt=0)
    """Most seconds to the first token."""
    tpot_s: Seconds | None = Field(default=None, gt=0)
    """Most seconds a token after the first."""
    e2e_s: Seconds | None = Field(default=None, gt=0)
    """Most seconds of a whole request."""
    percentile: float = Field(default=0.9, gt=0, lt=1)
    """Share of requests that has to meet them."""


class ServingSpec(Spec):
    """`serving:` of a scenario."""

    engine: Engine = "vllm"
    """Serving engine, whose defaults, memory rule and measured coefficients hold."""
    engine_version: Release = ""
    """Release of the engine; absent: the newest that is known."""
    precision: ServingPrecision = ServingPrecision()
    """Number formats of weights, products and cache."""
    pools: tuple[PoolSpec, ...] = ()
    """Absent: one mixed pool with the scenario's own tp, pp, ep and dp."""
    mesh: MeshSpec | None = None
    """Several models on shared devices: every tenant has weights of its own."""
    autoscale: AutoscaleSpec | None = None
    """Instances of the first pool come and go; its `replicas` are there at the start."""
    router: Named = "round_robin"
    """Which instance a request goes to: a rule's id, or an id with its knobs."""
    transfer: TransferSpec = TransferSpec()
    """Between prefill and decode pools."""
    traffic: TrafficSpec
    """Requests: arrivals, lengths, sessions, tenants, programs or a trace."""
    slo: SloSpec = SloSpec()
    """Objectives that requests keep, for goodput and attainment."""
    speculation: SpeculationSpec | None = None
    """Drafted tokens that are verified together; absent: one token a step."""
    streaming: bool = True
    """Whether tokens are sent one by one, which the front end pays for."""
    expert_skew: float = Field(default=0.85, gt=0, le=1)
    """Experts that routing treats as alike, as a share of all: below 1 where some are drawn more often."""
    expert_load: ExpertLoadSpec | None = None
    """A distribution of loads and a placement in place of `expert_skew`."""
    expert_storage: ExpertStorageSpec | None = None
    """Experts on drives: read after routing, before their products; absent: all are in memory."""
    sparse_reads: SparseReadsSpec | None = None
    """Weights that are skipped where activations are zero; absent: all are read."""

    @property
    def streams(self) -> bool:
        """Whether answers go out token by token while the engine runs."""
        return self.streaming and not self.traffic.offline
