"""How one serving engine uses one device: coefficients from `catalog/coefficients/serving/*.yaml`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from windtunnel.cost.coefficient_files import coefficient_file
from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.specs.device import DeviceSpec, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCoefficients:
    """Fractions are of data-sheet peaks; times in seconds."""

    weight_bytes_fraction: float = 0.82
    """Weights of linear layers, read from device memory."""
    matrix_fraction: dict[str, float] = field(default_factory=dict)
    """Matrix throughput of linear layers by compute format."""
    prefill_attention_fraction: float = 0.45
    """Fused attention of prompts, of the 16-bit peak."""
    decode_kv_fraction: float = 0.72
    """Keys and values read by decode attention, of device memory bandwidth."""
    vector_attention_fraction: float = 0.14
    """Decode attention that takes each query head alone, of the fp32 rate outside of matrix units.

    Assumed: loads, casts and exponentials come with two products of one row each.
    """
    expert_bytes_fraction: dict[str, float] = field(default_factory=dict)
    """Weights of routed experts by stored format."""
    expert_matrix_fraction: dict[str, float] = field(default_factory=dict)
    """Throughput of expert products over that of linear layers in the same format."""
    memory_fraction: float = 0.7
    """Element-wise work."""
    written_out: float = 0.0
    """1: element-wise work runs operator by operator, as in plain PyTorch; 0: in fused kernels, as servers have."""
    scan_fraction: float = 0.12
    """State-space and linear-attention scans, of the 16-bit peak."""
    layer_s: float = 26e-6
    """Gaps between the kernels of one layer under a captured graph."""
    prompt_layer_s: float = 300e-6
    """Launches of a dense layer's kernels one by one: an iteration that holds prompts takes at least those of all."""
    launch_layer_s: float = 110e-6
    """Seconds that a layer takes longer in every iteration without captured graphs."""
    quantise_layer_s: float = 0.0
    """A layer's casts of activations where weights are 8-bit and scales are found at run time."""
    all_reduce_s: float = 10e-6
    """Latency of one all-reduce inside a scale-up domain."""
    all_reduce_fraction: float = 0.35
    """Rate of an all-reduce on long messages over the link's one-way bandwidth."""
    in_switch_s: float = 14.5e-6
    """Latency of an all-reduce that the switch adds up (`plan.all_reduce: in_switch`)."""
    in_switch_fraction: float = 0.614
    """Rate of an all-reduce in the switch on long messages over the link's one-way bandwidth.

    Source: 20 to 1,957 µs for 2 to 512 MiB between eight H100, a kernel of 16 blocks with multimem instructions
    (github.com/microsoft/tokenweave, artifacts_results, figure 7); within 4 % from 2 MiB on. Valid for: NVLink 4;
    assumed on later ones.
    """
    all_to_all_s: float = 40e-6
    all_to_all_fraction: float = 0.7
    """Rate of exchanges between ranks that share experts over the link's one-way bandwidth.

    Source: 153 and 158 GB/s of NVLink's 200 GB/s between eight H800 (github.com/deepseek-ai/DeepEP, normal kernels).
    """
    host_s: float = 1.5e-3
    """Seconds that an iteration waits for the host: scheduling, preparing inputs, sampling and sending tokens."""
    sequence_s: float = 12e-6
    """Seconds by which `host_s` is longer for each sequence of the batch."""
    ranks_s: float = 0.0
    """Seconds by which `host_s` is longer where an instance has several ranks: messages to their processes."""
    ranks_sequence_s: float = 0.0
    """Seconds by which `host_s` is longer for each sequence of the batch and rank."""
    stream_s: float = 0.0
    """Seconds that an iteration waits for a server in the engine's loop, for each sequence whose answer is streamed."""
    request_s: float = 20e-3
    """Seconds of client, HTTP and tokeniser, once a request."""
    front_end: float = 1.0
    """Work of the server's process for a request and for a token over that of its release (`run_setup.front_end`)."""
    crowd_s: float = 0.0
    """Seconds more that first tokens of benchmarks' closed loops take, where requests wait for one another in ways that
    their replay misses: what rows tell beyond `REQUEST_MOST_S`. It belongs to those records, not to a server."""
    roofline_power: float = 3.0
    """Exponent of the smooth maximum of compute and memory time of one product."""
    grades: dict[str, str] = field(default_factory=dict)
    """Coefficient → fitted | analytic | assumed."""


REQUEST_MOST_S = 15e-3
"""Most that one request costs alone: HTTP, JSON and a first event back, 2 to 4 ms, a thousand tokens of prompt in a
tokeniser that takes a million a second, 1 ms, three hops between processes and the first detokenised piece, 1 to 2 ms;
twice their sum. Fits to closed loops, where many requests arrive at once, take 75 to 156 ms."""

_LINES = {"vllm": (((0, 4), "vllm_2023"), ((0, 8), "vllm_v0")), "trtllm": (((1, 0), "trtllm_v0"),)}
"""Lines of coefficients before the newest: the release that ends each, and its name."""


_SERVER_APART = {"vllm": (0, 6)}
"""Releases from which a process of its own serves HTTP."""


def serves_between_steps(engine: str, version: str) -> bool:
    """Whether what is streamed is written out between two iterations, in the engine's own loop.

    Source: vLLM's AsyncLLMEngine and HTTP server share one event loop (github.com/vllm-project/vllm/issues/6797); the
    server has its own process from 0.6.0 on. Valid for: stated versions; without one the newest stands.
    """
    parts = _numbers(version)
    return len(parts) == 2 and parts < _SERVER_APART.get(engine, (0, 0))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(p) for p in version.lstrip("v").split(".")[:2] if p.isdigit())


def release_of(engine: str, version: str) -> str:
    """The release line whose coefficients count: before vLLM 0.4 and 0.8 and TensorRT-LLM 1.0 their own.

    Source: vLLM's second engine core is the default from 0.8.0 on, TensorRT-LLM's PyTorch backend in place of compiled
    engines from 1.0 on (their release notes); before 0.4 vLLM sends each step to its ranks through Ray. Valid for:
    stated versions; without one the newest line stands.
    """
    parts = _numbers(version)
    ended = [name for end, name in _LINES.get(engine, ()) if len(parts) == 2 and parts < end]
    return ended[0] if ended else engine


@cache
def _prior(engine: str, device_id: str, generation: str) -> ServingCoefficients:
    """What data sheets, documents and other people's kernels say."""
    chain, name = [], engine
    while name:
        data = coefficient_file(f"serving/{name}")
        chain.append(data)
        name = data.get("inherits") or ("generic" if name != "generic" else "")
    base = ServingCoefficients()
    for level in ("default", generation, device_id):
        for data in reversed(chain):
            for key, entry in _entries(data, level).items():
                stated = isinstance(entry, dict) and "value" in entry
                value = entry["value"] if stated else entry
                merged: Any = {**getattr(base, key), **value} if isinstance(value, dict) else float(value)
                grade = entry.get("grade", "analytic") if stated else "analytic"
                changed: dict[str, Any] = {key: merged}
                base = replace(base, **changed, grades={**base.grades, key: grade})
    return base


def _entries(data: dict[str, Any], level: str) -> dict[str, Any]:
    known = {f.name for f in fields(ServingCoefficients)}
    found: dict[str, Any] = (data.get("coefficients") or {}).get(level) or {}
    for key in found:
        if key not in known:
            raise KeyError(f"{data.get('name', '?')}: serving coefficient {key} is unknown")
    return found


@cache
def _fitted(engine: str, device_id: str, generation: str) -> ServingCoefficients:
    """The prior of a device, each coefficient times the factor that measured rows of its generation have found."""
    base = _prior(engine, device_id, generation)
    data = coefficient_file(f"serving/fitted/{engine}")
    level = generation if generation in (data.get("coefficients") or {}) else "default"
    for key, entry in _entries(data, level).items():
        own = getattr(base, key)
        if isinstance(own, dict):
            found = {k: _times(own[k], entry, k) for k in entry["value"] if k in own}
            changed: dict[str, Any] = {key: {**own, **found}}
        else:
            changed = {key: _times(own, entry)}
        base = replace(base, **changed, grades={**base.grades, key: entry["grade"]})
    crowd_s = max(base.request_s - REQUEST_MOST_S, 0.0)
    return replace(base, request_s=base.request_s - crowd_s, crowd_s=crowd_s)


def _times(own: float, entry: dict[str, Any], key: str = "") -> float:
    value, prior, most = (entry.get(name, math.inf) for name in ("value", "prior", "most"))
    if key:
        value, prior = value[key], prior[key]
        most = most.get(key, math.inf) if isinstance(most, dict) else most
    return float(min(own * value / prior, max(most, own)))


def prior_of(release: str, generation: str) -> ServingCoefficients:
    """Priors of a release line on a generation, none of its devices in particular.

    Source: `catalog/coefficients/serving/*.yaml`. Valid for: as `serving_coefficients`.
    """
    return _prior(release, "", generation)


def serving_coefficients(
    engine: str, version: str, device: DeviceSpec, *, fitted: bool = True, streamed: bool = True
) -> ServingCoefficients:
    """Coefficients of an engine's release line on a device, the most specific entry of each.

    What was fitted (`fitted/`) belongs to its own release line and is not inherited: factors on the priors of each
    device, fitted to rows of that line on that generation, or by rows of others that share the line or the generation.
    Without `fitted` the priors of a fit come out. Where nothing is `streamed`, or another process does it, iterations
    do not wait for the server.

    Source: `catalog/coefficients/serving/*.yaml`, each value with its confidence. Valid for: devices of a generation
    that has an entry; others take the default level.
    """
    own = (_fitted if fitted else _prior)(release_of(engine, version), device.id, device.generation)
    found = own if streamed and serves_between_steps(engine, version) else replace(own, stream_s=0.0)
    return found if device.profile is None else _with_profile(found, device.profile)


def _with_profile(base: ServingCoefficients, profile: Profile) -> ServingCoefficients:
    """With what was measured on the machine itself laid over it.

    Raises:
        BadInput: names that are no coefficients.
    """
    known = {f.name for f in fields(ServingCoefficients)} - {"grades"}
    if wrong := [name for name in profile.serving if name.partition(".")[0] not in known]:
        raise BadInput(
            Problem(f"cluster.device.profile.serving.{name}", "is no coefficient", nearest=nearest_name(name, known))
            for name in wrong
        )
    for name, entry in profile.serving.items():
        key, _, part = name.partition(".")
        value: Any = {**getattr(base, key), part: entry.value} if part else entry.value
        changed: dict[str, Any] = {key: value}
        base = replace(base, **changed, grades={**base.grades, key: entry.grade})
    return base
