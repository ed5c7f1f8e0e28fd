"""From measurements to coefficients: the cost functions that predictions use, fitted to what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.calibration.fit_network import fit_network
from windtunnel.calibration.solve import least_squares
from windtunnel.calibration.store import Measurement, Store
from windtunnel.cost.attention import AttentionWork, attention_time_s
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.gemm import Products, aligned, gemm_time_s
from windtunnel.cost.memory_bound import optimizer_bytes, optimizer_time_s, pointwise_time_s
from windtunnel.graph.operators import STYLES
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import DeviceSpec, MeasuredValue

BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
KERNEL = "sdpa"
"""Attention kernel that PyTorch's `scaled_dot_product_attention` stands for."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measured case next to the fitted model. Seconds."""

    kind: str
    label: str
    measured_s: float
    model_s: float
    noise: float


@dataclass(slots=True)
class Fitted:
    """Coefficients with their standard errors, and every case against the model."""

    coefficients: dict[str, MeasuredValue]
    network: dict[str, MeasuredValue]
    points: list[Point]
    serving: dict[str, MeasuredValue] = field(default_factory=dict)


def with_values(base: Coefficients, names: Sequence[str], values: Floats) -> Coefficients:
    """Coefficients with some of them replaced."""
    changes: dict[str, Any] = {name: float(value) for name, value in zip(names, values, strict=True)}
    return replace(base, **changes)


def _times(found: Sequence[Measurement]) -> Floats:
    return np.array([m.median_s for m in found])


def _column(found: Sequence[Measurement], name: str) -> Floats:
    return np.array([float(m.case.shape[name]) for m in found])


def fit(store: Store, device: DeviceSpec, cluster: ClusterSpec | None = None) -> Fitted:
    """All coefficients that the measurements say something about.

    Args:
        store: measurements.
        device: with the peaks and rates of `profile.device_of`.
        cluster: of the ranks that measured together; None: no collectives.
    """
    out = Fitted({}, {}, [])
    base = _streams(store, device, out, Coefficients())
    for number_format in dict.fromkeys(str(m.case.shape["format"]) for m in store.of("gemm")):
        base = _products(store, device, out, base, number_format)
    base = _attention(store, device, out, base)
    _optimizer(store, device, out, base)
    _launches(store, out)
    _serving(store, device, out)
    if cluster is not None and (store.of("collective") or store.of("p2p")):
        _collectives(store, cluster, out)
    return out


def _note(out: Fitted, names: Sequence[str], values: Floats, errors: Floats, source: str) -> None:
    for name, value, error in zip(names, values, errors, strict=True):
        wide = float(min(error, 9.99))
        out.coefficients[name] = MeasuredValue(value=float(value), relative_error=wide, source=source)


def _add_points(out: Fitted, found: Sequence[Measurement], model: Floats, label: Callable[[Measurement], str]) -> None:
    for m, seconds in zip(found, np.broadcast_to(model, (len(found),)), strict=True):
        out.points.append(Point(m.case.kind, label(m), m.median_s, float(seconds), m.noise))


def _streams(store: Store, device: DeviceSpec, out: Fitted, base: Coefficients) -> Coefficients:
    """The rate of element-wise kernels; what launching one takes is in the measured seconds and fitted next to it."""
    found = store.of("pointwise")
    if not found:
        return base
    moved = _column(found, "bytes")

    def model(x: Floats) -> Floats:
        return np.asarray(pointwise_time_s(device, with_values(base, ("memory_fraction",), x[:1]), moved) + x[1])

    values, errors = least_squares(model, [0.8, 2e-6], _times(found), [0.02, 1e-8], [1.2, 1e-3])
    source = f"{len(found)} additions of {moved.min():.3g} to {moved.max():.3g} bytes"
    _note(out, ("memory_fraction",), values[:1], errors[:1], source)
    _add_points(out, found, model(values), lambda m: f"{m.case.shape['bytes']:,} B")
    base, launch = with_values(base, ("memory_fraction",), values[:1]), float(values[1])
    if rows := store.of("softmax"):
        size = 8.0 * _column(rows, "rows") * _column(rows, "columns")
        plain = pointwise_time_s(device, base, size)
        share, error = least_squares(lambda x: plain / x[0] + launch, [0.5], _times(rows), [0.01], [4.0])
        _note(out, ["softmax_fraction"], share, error, f"{len(rows)} row-wise softmaxes")
        _add_points(out, rows, plain / share[0] + launch, lambda m: f"{m.case.shape['rows']} rows")
        base = replace(base, softmax_fraction=float(share[0]))
    return base


def _seconds_of(
    found: Sequence[Measurement], device: DeviceSpec, base: Coefficients, fraction: float, share: float = 1.0
) -> Floats:
    """Seconds of measured products of one format; `share`: of the aligned rate, of all of them."""
    m, n, k = (_column(found, x) for x in "mnk")
    number_format = str(found[0].case.shape["format"])
    size, one = BYTES[number_format], np.ones(len(m))
    return gemm_time_s(
        device,
        base,
        Products(
            m=m,
            n=n,
            k=k,
            peak_flop_per_s=device.peak(number_format) * one,
            fraction=fraction * one,
            operand_bytes=size * one,
            output_bytes=max(size, 2.0) * one,
            extra_bytes=0.0 * one,
            groups=np.array([float(x.case.shape.get("batch", 1)) for x in found]),
            aligned_share=share * one,
        ),
    )


def _is_aligned(one: Measurement, device: DeviceSpec) -> bool:
    shape = one.case.shape
    return aligned(device, float(shape["n"]), float(shape["k"]), BYTES[str(shape["format"])])


def _shape_label(one: Measurement) -> str:
    shape = one.case.shape
    return f"{shape['format']} {'x'.join(str(shape[a]) for a in ('batch', 'm', 'n', 'k') if a in shape)}"


def _products(store: Store, device: DeviceSpec, out: Fitted, base: Coefficients, number_format: str) -> Coefficients:
    every = [m for m in store.of("gemm") if m.case.shape["format"] == number_format]
    found = [m for m in every if _is_aligned(m, device)] or every
    key = "fp32" if number_format == "fp32" else "bf16" if number_format in ("bf16", "fp16") else number_format
    if "gemm_k0" in out.coefficients:  # shape of the curve: set by the first format
        value, error = least_squares(
            lambda x: _seconds_of(found, device, base, x[0]), [0.8], _times(found), [0.01], [1.0]
        )
        names = [f"gemm_fraction.{key}"]
    else:
        value, error = least_squares(
            lambda x: _seconds_of(
                found, device, replace(base, gemm_k0=float(x[1]), gemm_floor_s=float(x[2])), float(x[0])
            ),
            [0.8, 50.0, 5e-6],
            _times(found),
            [0.01, 1.0, 1e-7],
            [1.0, 2000.0, 1e-3],
        )
        names = [f"gemm_fraction.{key}", "gemm_k0", "gemm_floor_s"]
        base = replace(base, gemm_k0=float(value[1]), gemm_floor_s=float(value[2]))
    fraction = float(value[0])
    base = replace(base, gemm_fraction={**base.gemm_fraction, key: fraction})
    _note(out, names, value, error, f"{len(found)} products in {number_format}")
    _add_points(out, found, _seconds_of(found, device, base, fraction), _shape_label)
    base = _unaligned(every, device, out, base, ("unaligned_fraction", fraction))
    batched = [m for m in store.of("batched") if m.case.shape["format"] == number_format]
    if plain := [m for m in batched if _is_aligned(m, device)]:
        _add_points(out, plain, _seconds_of(plain, device, base, fraction), _shape_label)
    base = _unaligned(batched, device, out, base, ("unaligned_batched_fraction", fraction))
    _loops(store, device, out, base, (number_format, fraction))
    return base


def _unaligned(
    found: Sequence[Measurement], device: DeviceSpec, out: Fitted, base: Coefficients, given: tuple[str, float]
) -> Coefficients:
    """What is left of the rate where rows are no whole loads; `given`: the coefficient, and the rate of aligned ones.

    The first format that was measured sets it.
    """
    name, fraction = given
    odd = [m for m in found if not _is_aligned(m, device)]
    if not odd or name in out.coefficients:
        return base
    share, error = least_squares(
        lambda x: _seconds_of(odd, device, base, fraction, float(x[0])), [0.3], _times(odd), [0.01], [1.0]
    )
    _note(out, [name], share, error, f"{len(odd)} products whose rows are no multiples of 16 bytes")
    _add_points(out, odd, _seconds_of(odd, device, base, fraction, float(share[0])), _shape_label)
    return with_values(base, [name], share)


def _loops(store: Store, device: DeviceSpec, out: Fitted, base: Coefficients, given: tuple[str, float]) -> None:
    """What loops over products, as over experts, reach of one product's rate; `given`: the format, and that rate."""
    number_format, fraction = given
    groups = [x for x in store.of("grouped") if x.case.shape["format"] == number_format]
    if not groups:
        return
    whole = _column(groups, "groups") * _seconds_of(groups, device, base, fraction)
    share, wide = least_squares(lambda x: whole / x[0], [0.9], _times(groups), [0.05], [1.0])
    _note(out, ["grouped_fraction"], share, wide, f"{len(groups)} loops over products")
    _add_points(out, groups, whole / share[0], lambda x: f"{x.case.shape['groups']} groups")


def _attention(store: Store, device: DeviceSpec, out: Fitted, base: Coefficients) -> Coefficients:
    found = [m for m in store.of("attention") if m.case.shape["direction"] != "decode"]
    if not found:
        return base
    backward = np.array([m.case.shape["direction"] == "backward" for m in found])
    s, d = _column(found, "seq_len"), _column(found, "head_dim")
    batch, heads = _column(found, "batch"), _column(found, "heads")
    number_format = str(found[0].case.shape["format"])
    kernel = str(found[0].case.shape.get("kernel", KERNEL))
    names = [f"attention_fraction.{kernel}", "attention_ramp", "attention_floor_s", "attention_backward"]
    start, low, high = [0.4, 200.0, 2e-5, 0.7], [0.01, 1.0, 1e-7, 0.05], [1.2, 5000.0, 1e-3, 3.0]
    if not backward.any():
        names, start, low, high = names[:3], start[:3], low[:3], high[:3]

    def model(x: Floats) -> Floats:
        c = replace(
            base,
            attention_fraction={**base.attention_fraction, kernel: float(x[0])},
            attention_ramp=float(x[1]),
            attention_floor_s=float(x[2]),
            attention_backward=float(x[3]) if len(x) > 3 else base.attention_backward,
        )
        times = [
            attention_time_s(
                device,
                c,
                AttentionWork(
                    pairs=batch * s * s / 2,
                    heads=heads,
                    d_qk=d,
                    d_v=d,
                    seq_len=s,
                    kernel=kernel,
                    backward=direction,
                    number_format=number_format,
                ),
            )
            for direction in (False, True)
        ]
        return np.where(backward, times[1], times[0])

    values, errors = least_squares(model, start, _times(found), low, high)
    _note(out, names, values, errors, f"{len(found)} causal attentions in {number_format}")
    _add_points(out, found, model(values), lambda m: f"{m.case.shape['direction']} {m.case.shape['seq_len']}")
    return base


def _optimizer(store: Store, device: DeviceSpec, out: Fitted, base: Coefficients) -> None:
    found = store.of("optimizer")
    if not found:
        return
    moved = optimizer_bytes("adam", 0.0, 4.0, 4.0)
    plain = np.array(
        [optimizer_time_s(device, replace(base, optimizer_fraction=1.0), p, moved) for p in _column(found, "params")]
    )
    value, error = least_squares(lambda x: plain / x[0], [0.7], _times(found), [0.01], [20.0])
    _note(out, ["optimizer_fraction"], value, error, f"{len(found)} fused AdamW steps")
    _add_points(out, found, plain / value[0], lambda m: f"{m.case.shape['params']:,} parameters")


PRODUCTS_OF_A_LAYER = 7.0
"""Queries, keys, values, output, gate, up, down."""


def _serving(store: Store, device: DeviceSpec, out: Fitted) -> None:
    """What a plain loop of forward passes reads and waits for: no server, no scheduler, no captured graphs."""
    own = out.serving
    if thin := store.of("thin"):
        size = BYTES[str(thin[0].case.shape["format"])]
        plain = size * _column(thin, "n") * _column(thin, "k") / device.memory_bytes_per_s
        start = [0.8, 1e-5]
        value, error = least_squares(lambda x: plain / x[0] + x[1], start, _times(thin), [0.01, 1e-7], [50.0, 1e-3])
        source = f"{len(thin)} products of 1 and 8 rows"
        own["weight_bytes_fraction"] = MeasuredValue(
            value=float(value[0]), relative_error=float(error[0]), source=source
        )
        floor = PRODUCTS_OF_A_LAYER * float(value[1])
        own["layer_s"] = MeasuredValue(value=floor, relative_error=float(min(error[1], 9.99)), source=source)
        model = plain / value[0] + value[1]
        _add_points(out, thin, model, lambda m: "x".join(str(m.case.shape[a]) for a in ("m", "n", "k")))
    decoding = [m for m in store.of("attention") if m.case.shape["direction"] == "decode"]
    if decoding:
        size = BYTES[str(decoding[0].case.shape["format"])]
        moved = 2.0 * size * np.prod([_column(decoding, a) for a in ("batch", "heads", "seq_len", "head_dim")], axis=0)
        plain = moved / device.memory_bytes_per_s
        value, error = least_squares(lambda x: plain / x[0], [0.7], _times(decoding), [0.005], [50.0])
        own["decode_kv_fraction"] = MeasuredValue(
            value=float(value[0]), relative_error=float(error[0]), source=f"{len(decoding)} decoding attentions"
        )
        _add_points(out, decoding, plain / value[0], lambda m: f"decode {m.case.shape['seq_len']}")
    for name, entry in out.coefficients.items():
        if name.startswith("gemm_fraction."):
            own[f"matrix_fraction.{name.partition('.')[2]}"] = entry
        elif name.startswith("attention_fraction."):
            share = device.peak("fp32") / device.peak("bf16") if device.kind == "cpu" else 1.0
            own["prefill_attention_fraction"] = entry.model_copy(update={"value": entry.value * share})
        elif name == "memory_fraction":
            own[name] = entry
    if seconds := _layer_s(store, "forward"):
        for name in ("prompt_layer_s", "launch_layer_s"):
            source = "a layer too small to compute anything"
            own[name] = MeasuredValue(value=seconds, relative_error=0.1, source=source)
        none = MeasuredValue(value=0.0, relative_error=0.0, source="a loop without a server")
        own |= dict.fromkeys(("host_s", "sequence_s", "request_s"), none)
        own["written_out"] = MeasuredValue(value=1.0, relative_error=0.0, source="a loop of PyTorch operators")
    _decode_layers(store, device, out)


def _decode_layers(store: Store, device: DeviceSpec, out: Fitted) -> None:
    """What whole layers take that decode in turn: replaces what their products, attention and launches take alone.

    Seconds of a layer are bytes of weights over one rate, bytes of keys and values over another, and a gap. On a CPU
    each of the three is slower than alone: its threads sleep while small operators run, and the last layer's weights
    have displaced what the next one needs.
    """
    found, own = store.of("decode_layer"), out.serving
    if len(found) > 3:
        size = BYTES[str(found[0].case.shape["format"])]
        batch, length, heads, d, width, intermediate = (
            _column(found, name) for name in ("batch", "seq_len", "heads", "head_dim", "hidden", "intermediate")
        )
        weights_s = size * width * (4.0 * heads * d + 3.0 * intermediate) / device.memory_bytes_per_s
        caches_s = 2.0 * size * batch * length * heads * d / device.memory_bytes_per_s

        def model(x: Floats) -> Floats:
            return np.asarray(weights_s / x[0] + caches_s / x[1] + x[2])

        value, error = least_squares(model, [0.2, 0.05, 3e-4], _times(found), [0.005, 0.002, 1e-6], [50.0, 50.0, 1e-1])
        source = f"{len(found)} layers that decode in turn"
        gap_s = max(float(value[2]) - (own["layer_s"].value if "layer_s" in own else 0.0), 0.0)
        for name, x, wide in zip(
            ("weight_bytes_fraction", "decode_kv_fraction", "launch_layer_s"), (*value[:2], gap_s), error, strict=True
        ):
            own[name] = MeasuredValue(value=float(x), relative_error=float(min(wide, 9.99)), source=source)
        _add_points(out, found, model(value), lambda m: f"{m.case.shape['batch']} x {m.case.shape['hidden']}")
    if loop := store.of("decode_loop"):
        own["host_s"] = MeasuredValue(value=loop[0].median_s, relative_error=0.1, source="a loop without layers")


def _layer_s(store: Store, direction: str) -> float:
    """Host time of a layer: forward alone, or forward and backward."""
    return next((m.median_s for m in store.of("launch") if m.case.shape["direction"] == direction), 0.0)


def _launch_s(store: Store) -> float:
    """Host time of one operator of a training step, as predictions count operators of eager PyTorch."""
    return _layer_s(store, "backward") / sum(STYLES["eager"].layer_kernels)


def _launches(store: Store, out: Fitted) -> None:
    if seconds := _launch_s(store):
        count = sum(STYLES["eager"].layer_kernels)
        out.coefficients["host_kernel_s"] = MeasuredValue(
            value=seconds, relative_error=0.1, source=f"a layer too small to compute, over {count:.0f} operators"
        )


def _collectives(store: Store, cluster: ClusterSpec, out: Fitted) -> None:
    found = fit_network(store.of("collective"), store.of("p2p"), cluster)
    out.network.update(found.network)
    out.coefficients.update(found.coefficients)
    _add_points(
        out,
        found.cases,
        found.model_s,
        lambda m: f"{m.case.shape.get('operation', 'p2p')} {m.case.shape['bytes']:,} B",
    )
