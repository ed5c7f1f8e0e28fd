"""What is served: engine, pools of instances, traffic and objectives. Words are vLLM's where it has one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Bytes, Count, Inconsistent, Seconds, Spec

Engine = Literal["vllm", "sglang", "trtllm", "lmdeploy", "generic"]
WeightFormat = Literal["bf16", "fp16", "fp8", "fp8_block", "int8", "w4a16", "w4a8", "nvfp4", "mxfp4"]
CacheFormat = Literal["bf16", "fp16", "fp8", "int8"]
MAX_ZIPF_LENGTHS = 1 << 20
"""Lengths of a Zipf law: each has a weight of its own."""


class ServingPrecision(Spec):
    """Formats by tensor class. `weights` covers linear layers; embedding and head stay in 16 bits."""

    weights: WeightFormat = "bf16"
    experts: WeightFormat | None = None
    """Routed experts; absent: as `weights`."""
    kv_cache: CacheFormat = "bf16"


class ServingPlan(Spec):
    """How one instance is spread over devices: tp · dp · pp · cp of them."""

    tp: Count = 1
    pp: Count = 1
    dp: Count = 1
    """Ranks of attention data parallelism: attention and its cache are replicated, experts are shared."""
    ep: Count = 1
    """Ranks that experts are spread over whole; divides tp · dp. The rest cuts each expert."""
    cp: Count = 1

    @property
    def num_devices(self) -> int:
        """Devices of one instance."""
        return self.tp * self.pp * self.dp * self.cp


class ServingLimits(Spec):
    """Batch limits and memory knobs of an instance. Absent: the engine's own default."""

    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    max_model_len: Count | None = None
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    """vLLM: share of device memory for weights, activations and cache."""
    mem_fraction_static: float | None = Field(default=None, gt=0, le=1)
    """SGLang: share of device memory for weights and cache."""
    free_gpu_memory_fraction: float | None = Field(default=None, gt=0, le=1)
    """TensorRT-LLM: share of what weights and activations leave free that the cache takes."""
    chunked_prefill: bool | None = None
    cuda_graphs: bool | None = None
    stream_interval: Count | None = None
    """Decode steps between two messages to the client."""
    scheduler_interval: Count | None = None
    """Decode steps between two looks at arrivals."""


class KvSpec(Spec):
    """The key-value cache."""

    block_size: Count | None = None
    """Tokens; absent: the engine's default."""
    prefix_caching: bool | None = None
    num_blocks: Count | None = None
    """Blocks of an instance, where they are known; absent: predicted from memory."""
    swap_space_bytes: Bytes = 0.0
    """Host memory for preempted sequences; 0: they are computed again."""


class PoolSpec(Spec):
    """Instances that do the same work under the same plan."""

    role: Literal["mixed", "prefill", "decode"] = "mixed"
    replicas: Count = 1
    plan: ServingPlan = ServingPlan()
    limits: ServingLimits = ServingLimits()
    kv: KvSpec = KvSpec()
    policy: str | None = None
    """How batches are formed: a policy id; absent: the engine's own."""
    queue: str = "fcfs"
    """Who is admitted first: fcfs or priority."""


class Lengths(Spec):
    """Tokens of prompts or answers."""

    distribution: Literal["fixed", "uniform", "normal", "lognormal", "gamma", "zipf", "empirical"] = "fixed"
    mean: float | None = Field(default=None, gt=0)
    cv: float = Field(default=1.0, ge=0)
    """Standard deviation over mean."""
    min: Count | None = None
    max: Count | None = None
    values: tuple[Count, ...] = ()
    """`empirical`: lengths to draw from."""

    @model_validator(mode="after")
    def _enough(self) -> Lengths:
        problems = []
        if self.distribution == "empirical" and not self.values:
            problems.append(Problem("values", "is required by distribution empirical"))
        if self.distribution == "uniform" and (self.min is None or self.max is None):
            problems.append(Problem("min", "and max are required by distribution uniform"))
        if self.distribution not in ("empirical", "uniform") and self.mean is None:
            problems.append(Problem("mean", f"is required by distribution {self.distribution}"))
        if self.min is not None and self.max is not None and self.min > self.max:
            problems.append(Problem("min", f"must not be above max {self.max}", value=self.min))
        elif self.mean is not None and not (self.min or 0) <= self.mean <= (self.max or self.mean):
            problems.append(Problem("mean", f"must be from min {self.min} to max {self.max}", value=self.mean))
        if self.distribution == "zipf":
            problems += self._zipf()
        unread = {"fixed": ("cv", "values"), "uniform": ("mean", "cv", "values"), "zipf": ("cv", "values"),
                  "empirical": ("mean", "cv")}.get(self.distribution, ("values",))  # fmt: skip
        for name in unread:
            if name in self.model_fields_set and getattr(self, name) != type(self).model_fields[name].default:
                problems.append(Problem(name, f"is not read by distribution {self.distribution}; leave it out"))
        if problems:
            raise Inconsistent(problems)
        return self

    def _zipf(self) -> list[Problem]:
        """What a Zipf law needs: a longest length, and a mean below the middle (its weights fall with length)."""
        if self.max is None:
            return [Problem("max", "is required by distribution zipf")]
        if self.max - (self.min or 1) >= MAX_ZIPF_LENGTHS:
            return [Problem("max", f"must be at most {MAX_ZIPF_LENGTHS} above min for distribution zipf", self.max)]
        middle = ((self.min or 1) + self.max) / 2
        if self.mean is not None and not (self.min or 1) < self.mean <= middle:
            return [Problem("mean", f"must be above min and at most {middle:g}, half way to max, for zipf", self.mean)]
        return []


class Sessions(Spec):
    """Conversations: each turn's prompt holds the turns before it."""

    turns: Lengths = Lengths(mean=1.0)
    think_time_s: Seconds = 0.0
    """Mean time between an answer and the next turn (exponential)."""


class TrafficSpec(Spec):
    """Requests: how they arrive and how long they are, or a trace of both."""

    rate_per_s: float | None = Field(default=None, gt=0)
    concurrency: Count | None = None
    """Closed loop: this many requests are in flight; the next is sent when one ends."""
    offline: bool = False
    """All requests are there at the start."""
    process: Literal["poisson", "gamma", "constant", "bursty", "diurnal"] = "poisson"
    burstiness: float = Field(default=1.0, gt=0)
    """Shape of gamma arrivals, as in vLLM's bench: 1 is Poisson, below 1 burstier."""
    period_s: Seconds = 86400.0
    """`diurnal`, `bursty`: length of one cycle."""
    peak_to_mean: float = Field(default=2.0, ge=1)
    """`diurnal`, `bursty`: rate at the peak over the mean rate; at most 2 for `diurnal`, a sine."""
    num_requests: Count | None = None
    duration_s: Seconds | None = None
    warmup_requests: int = Field(default=0, ge=0)
    """First requests that metrics leave out."""
    input_tokens: Count | Lengths | None = None
    output_tokens: Count | Lengths | None = None
    correlation: float = Field(default=0.0, ge=-1, le=1)
    """Rank correlation of prompt and answer lengths."""
    shared_prefix_tokens: int = Field(default=0, ge=0)
    """First tokens that all prompts share (a system prompt)."""
    sessions: Sessions | None = None
    trace: str | None = None
    """File, relative to the scenario."""
    trace_format: str = "auto"
    """A reader's id (azure, burstgpt, mooncake, sharegpt, vllm_bench, aiperf …); auto: by the file's content."""
    trace_time_unit: Literal["s", "ms"] | None = None
    trace_block_size: Count | None = None
    """Tokens of one prefix hash of a trace."""
    trace_characters_per_token: float | None = Field(default=None, gt=0)
    """Traces that hold text, not counts."""
    time_scale: float = Field(default=1.0, gt=0)
    """Factor on a trace's arrival rate."""
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_process(self) -> TrafficSpec:
        problems = []
        given = [n for n in ("rate_per_s", "concurrency") if getattr(self, n) is not None]
        given += ["offline"] if self.offline else []
        if len(given) > 1:
            problems.append(Problem(given[0], f"and {given[1]} exclude each other"))
        if not given and self.trace is None:
            problems.append(Problem("rate_per_s", "or concurrency, offline: true, or a trace is required"))
        if self.trace is None:
            for name in ("input_tokens", "output_tokens"):
                if getattr(self, name) is None:
                    problems.append(Problem(name, "is required without a trace"))
            if self.num_requests is None and (self.concurrency or self.offline):
                problems.append(Problem("num_requests", "is required by concurrency and offline"))
            elif self.num_requests is None and self.duration_s is None:
                problems.append(Problem("num_requests", "or duration_s is required without a trace"))
        if self.process == "diurnal" and self.peak_to_mean > 2:
            problems.append(Problem("peak_to_mean", "must be at most 2 for diurnal, a sine", value=self.peak_to_mean))
        if self.process in ("diurnal", "bursty") and self.period_s == 0:
            problems.append(Problem("period_s", f"must be above 0 for {self.process}", value=0))
        if self.process not in ("gamma", "bursty") and self.burstiness != 1:
            problems.append(Problem("burstiness", "is read by gamma and bursty alone", value=self.burstiness))
        if problems:
            raise Inconsistent(problems)
        return self


class SloSpec(Spec):
    """What a request must meet to count as good. Absent parts always hold."""

    ttft_s: Seconds | None = None
    tpot_s: Seconds | None = None
    e2e_s: Seconds | None = None
    percentile: float = Field(default=0.9, gt=0, lt=1)
    """Share of requests that has to meet them."""


class ServingSpec(Spec):
    """`serving:` of a scenario."""

    engine: Engine = "vllm"
    engine_version: str = ""
    precision: ServingPrecision = ServingPrecision()
    pools: tuple[PoolSpec, ...] = ()
    """Absent: one mixed pool with the scenario's own tp, pp, ep and dp."""
    router: str = "round_robin"
    traffic: TrafficSpec
    slo: SloSpec = SloSpec()
    streaming: bool = True
    expert_skew: float = Field(default=0.85, gt=0, le=1)
    """Experts that routing treats as alike, as a share of all: below 1 where some are drawn more often."""
