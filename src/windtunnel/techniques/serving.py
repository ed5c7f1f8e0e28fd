"""How a technique acts on serving: on the settings of a deployment, and on the launches of an iteration's layers.

Two kinds of parts. `settings` rewrites the `serving:` section: a policy, a router, a pool, whatever lives in `serving/`
and has a field there. `launches` and `layers` act on an iteration: the first rewrites the launches of one layer, the
second says how the launches of one batch, or of parts of it, run side by side. What they return is simulated by the
engine with shared SMs and memory at the knots of the iteration model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from windtunnel.program.segment import Launch, Segment
from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.techniques.limits import Limits

if TYPE_CHECKING:
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.scenario import Scenario

Knobs = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServingBatch:
    """What an iteration computes, attention as the seconds it takes in one layer on an otherwise idle device."""

    tokens: float
    """Computed by the instance: of prompts and of decoding sequences."""
    prompt_attention_s: float = 0.0
    decode_attention_s: float = 0.0

    def part(self, share: float) -> ServingBatch:
        """An even part of the batch."""
        return ServingBatch(self.tokens * share, self.prompt_attention_s * share, self.decode_attention_s * share)


class ServingLayers(Protocol):
    """Equal layers one after the other, as parts see them."""

    @property
    def cluster(self) -> ClusterSpec:
        """Devices and links."""

    @property
    def tp(self) -> int:
        """Ranks of the tensor axis."""

    @property
    def ranks(self) -> int:
        """Devices of one pipeline stage."""

    @property
    def data_ranks(self) -> int:
        """Ranks of attention data parallelism, which share the tokens of a batch."""

    @property
    def hidden_size(self) -> int:
        """Hidden size of the model."""

    def in_switch_s(self, size: float) -> float | None:
        """Seconds of an all-reduce of so many bytes that the switch adds up; None where it does not."""

    @property
    def attention_bytes(self) -> tuple[float, float]:
        """Bytes of one token in one layer on one device: queries (outputs have as many), and keys and values."""

    @property
    def count(self) -> int:
        """Layers to return launches of."""

    @property
    def batch(self) -> ServingBatch:
        """Requests and tokens of the whole iteration."""

    def fastest(self, ways: Sequence[Callable[[int], Segment]]) -> int:
        """Index of the way to run the batch that takes the least time a layer; each makes a segment of n layers."""

    def launches(self, batch: ServingBatch) -> list[Launch]:
        """Launches of one layer in order, priced for a batch; each of them waits for the one before.

        `sm` is the share of SMs that keeps a launch at its own speed: matrix products what they compute, kernels bound
        by memory as many as keep memory busy.
        """


@dataclass(frozen=True, slots=True)
class ServingPart:
    """What a technique changes about serving; absent hooks do nothing."""

    settings: Callable[[ServingSpec, Knobs], ServingSpec] | None = None
    """Level `run`: the section with something switched on. Pools are always stated."""
    launches: Callable[[list[Launch], ServingBatch, ServingLayers, Knobs], list[Launch]] | None = None
    """Level `segment`: the launches of one layer for one batch, rewritten."""
    layers: Callable[[ServingLayers, Knobs], Segment | None] | None = None
    """Level `pair`: what runs side by side. None: the batch runs as it would without."""
    breaks: Callable[[Knobs], Sequence[int]] = lambda _: ()
    """Numbers of tokens from which on `layers` behaves otherwise."""

    @property
    def acts_on_iterations(self) -> bool:
        """Whether iterations take another time."""
        return self.launches is not None or self.layers is not None


def with_pools(serving: ServingSpec, change: Callable[[PoolSpec], dict[str, Any]]) -> ServingSpec:
    """The section with fields of each pool replaced.

    Args:
        serving: with its pools stated.
        change: pool → fields to replace.
    """
    pools = tuple(pool.model_copy(update=change(pool)) for pool in serving.pools)
    return serving.model_copy(update={"pools": pools})


def split_pools(serving: ServingSpec, answer_share: float, transfer: dict[str, Any]) -> ServingSpec:
    """The section with each mixed pool of several instances cut in two, one for prompts and one for answers.

    Args:
        serving: with its pools stated.
        answer_share: of each pool's instances, rounded, that answer; at least one of each role.
        transfer: fields of `serving.transfer` that the section leaves open.
    """
    pools: list[PoolSpec] = []
    for pool in serving.pools:
        answers = min(max(round(answer_share * pool.replicas), 1), pool.replicas - 1)
        if pool.role != "mixed" or not answers:
            pools.append(pool)
            continue
        pools.append(pool.model_copy(update={"role": "prefill", "replicas": pool.replicas - answers}))
        pools.append(pool.model_copy(update={"role": "decode", "replicas": answers}))
    own = {name: value for name, value in transfer.items() if getattr(serving.transfer, name) is None}
    update = {"pools": tuple(pools)} | ({"transfer": serving.transfer.model_copy(update=own)} if own else {})
    return serving.model_copy(update=update)


def limits_of_split(share: str) -> Limits:
    """Limit cases of a technique that splits instances by role.

    Args:
        share: knob that says how many instances answer.
    """
    return Limits(
        scenario={
            "model": "meta-llama/Llama-2-70b-hf",
            "cluster": {"device": "a100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
            "serving": {
                "engine": "vllm",
                "engine_version": "0.4.2",
                "pools": [{"replicas": 4, "plan": {"tp": 4}}],
                "traffic": {
                    "rate_per_s": 3,
                    "num_requests": 300,
                    "input_tokens": 1500,
                    "output_tokens": 150,
                    "seed": 2,
                },
            },
        },
        measure="tpot_s.mean",
        free={"serving": {"traffic": {"input_tokens": 1}}},
        vanishes=0.1,
        costly={share: 0.25},
        costly_scenario={"serving": {"traffic": {"input_tokens": 100, "output_tokens": 600}}},
    )


def limits_of_placement(cluster: Mapping[str, Any], max_num_seqs: int) -> Limits:
    """Limits of a technique that places experts: it gains under skewed loads, not with all experts on each rank.

    Args:
        cluster: DeepSeek-V3 has its experts over all of its devices.
        max_num_seqs: sequences that an instance answers at once.
    """
    ranks = cluster["nodes"] * cluster["devices_per_node"]
    return Limits(
        scenario={
            "model": "deepseek-ai/DeepSeek-V3",
            "cluster": cluster,
            "serving": {
                "engine": "sglang",
                "precision": {"weights": "fp8_block"},
                "expert_load": {"popularity": 0.5},
                "pools": [
                    {
                        "plan": {"dp": ranks, "ep": ranks},
                        "limits": {
                            "max_num_seqs": max_num_seqs,
                            "max_num_batched_tokens": 131072,
                            "mem_fraction_static": 0.8,
                        },
                    }
                ],
                "traffic": {"offline": True, "num_requests": 3000, "input_tokens": 1024, "output_tokens": 64},
            },
        },
        measure="total_tokens_per_s",
        larger=True,
        # no token travels, nobody is waited for, and there is nothing to copy
        free={
            "serving": {
                "expert_load": {"popularity": 0.0},
                "pools": [
                    {"plan": {"tp": ranks, "ep": 1}, "limits": {"max_num_seqs": max_num_seqs}},
                ],
            }
        },
        vanishes=0.03,
        costly={"step_interval": 1},
    )


def chained(segment: Segment, launches: Sequence[Launch], after: Sequence[int] = ()) -> list[int]:
    """Append launches, each after the one before and the first after `after`; returns the index of the last in a list.

    Streams run in the order in which launches are appended, whichever chain they belong to.
    """
    last = list(after)
    for launch in launches:
        last = [segment.append(launch.following(last))]
    return last


def side_by_side(
    parts: Sequence[Sequence[Launch]], count: int, queue: Callable[[Launch, int], str] = lambda launch, _: launch.stream
) -> Segment:
    """Parts of a batch through `count` layers, each launch in its queue.

    A queue stays with a part until that part has to wait for another queue, then takes the one that has waited longest.
    Waiting is evaluated by the launches' own times; the engine then lets them share SMs and memory.

    Args:
        parts: launches of one layer of each part.
        count: layers.
        queue: which queue a launch of a part enters.
    """
    out, free = Segment("side by side", "F", []), dict[str, float]()
    runs: dict[str, int] = {}
    last: list[list[int]] = [[] for _ in parts]
    ready = [(0.0, k, 0) for k, part in enumerate(parts) if part]
    names = [[queue(launch, k) for launch in part] for k, part in enumerate(parts)]

    def turn(one: tuple[float, int, int]) -> tuple[float, bool, float, int]:
        at, k, i = one
        name = names[k][i % len(parts[k])]
        return max(at, free.get(name, 0.0)), runs.get(name) != k, at, k

    while ready:
        one = min(ready, key=turn)
        ready.remove(one)
        _, k, i = one
        launch, name = parts[k][i % len(parts[k])], names[k][i % len(parts[k])]
        free[name] = end = turn(one)[0] + launch.alone_s
        runs[name] = k
        added = launch.following(last[k])
        added.stream = name
        last[k] = [out.append(added)]
        if i + 1 < count * len(parts[k]):
            ready.append((end, k, i + 1))
    return out


def served(scenario: Scenario) -> str | None:
    """Why a technique of serving does not apply to a scenario; None where it does."""
    return None if scenario.serving is not None else "there is no `serving` section"


def with_expert_load(serving: ServingSpec, change: Mapping[str, Any]) -> ServingSpec:
    """Serving whose load of experts has some fields set; as it is where it states none."""
    load = serving.expert_load
    return serving if load is None else serving.model_copy(update={"expert_load": load.model_copy(update=change)})


def splits(scenario: Scenario) -> str | None:
    """Why a technique that splits instances by role does not apply; None where it does."""
    if scenario.serving is None:
        return served(scenario)
    mixed = [pool for pool in scenario.serving.pools if pool.role == "mixed"]
    if not mixed:
        return None
    return None if any(pool.replicas > 1 for pool in mixed) else "one instance cannot be split by role"
