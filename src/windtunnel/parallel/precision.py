"""Low-precision matrices: which GEMMs they apply to, and what casting costs.

Source: quantisation traffic per operand element as docs/internals/cost-model.md lists it (one read in 16 bits, writes
of row and column copies and scales).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windtunnel.cost.coefficients import Coefficients
from windtunnel.errors import ProblemList
from windtunnel.graph import Kind, Operator, Tensor
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.number_formats import MATRIX_FORMAT, multiplies, trained_formats
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.formats import narrow_formats, trained_in, trains

OPERAND_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5625}


def check_rate(precision: str, device: DeviceSpec, problems: ProblemList) -> None:
    """Note a precision whose matrices a device does not multiply."""
    number_format, own = MATRIX_FORMAT[precision], device.peak_flop_per_s
    if not multiplies(precision, own):
        units = "microscaled" if number_format in own else number_format
        rule = f"needs {units} matrix units, which {device.id} has not; it trains in {', '.join(trained_formats(own))}"
        problems.add("training.precision", precision, rule)
        return
    try:
        device.peak(number_format)
    except KeyError:
        rule = f"{device.id} has no rate for it, nor for a format that could stand in"
        problems.add("training.precision", precision, f"{rule}; it has {', '.join(own)}")


def check_precision(training: TrainingSpec, device: DeviceSpec, problems: ProblemList) -> None:
    """Note a precision that the device does not multiply or the framework does not train in."""
    check_rate(training.precision, device, problems)
    framework, version = training.framework, training.framework_version
    if not trains(framework, training.precision, version):
        release = f"{framework} {version}".rstrip()
        since = (narrow_formats(framework) or {}).get(training.precision, {}).get("since")
        later = f" before {since}" if since else ""
        own = [name for name in trained_in(framework, version) if name in trained_formats(device.peak_flop_per_s)]
        rule = f"{release} does not train in it{later}; on {device.id} it trains in {', '.join(own)}"
        problems.add("training.precision", training.precision, rule)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Formats of one training precision."""

    precision: str
    linear: str
    """Matrix format of linear layers."""
    other: str
    """Matrix format of everything else (attention, head, router)."""
    quantise_bytes: float
    """Extra traffic per operand element of a linear GEMM; 0 for 16-bit training."""

    @property
    def one_copy(self) -> float:
        """Share of a cast's traffic that is left where no weight gradient needs the column copy (frozen weights).

        Tensor-wise fp8 reads once and writes two copies, so 3 of 4 bytes; block formats make each copy from 16 bits.
        """
        return 0.75 if self.precision == "fp8" else 0.5

    def format_of(self, op: Operator) -> str:
        """Matrix format of an operator."""
        if op.number_class == "linear" and op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
            return self.linear
        return self.other


def recipe(precision: str, coefficients: Coefficients, *, compiled: bool) -> Recipe:
    """The recipe of a training precision: low precision in linear layers only, as the frameworks do."""
    linear = MATRIX_FORMAT[precision]
    other = linear if precision in ("fp32", "tf32", "fp16", "bf16") else "bf16"
    extra = coefficients.quantise_bytes.get(precision, 0.0)
    if compiled and extra and precision not in _TWO_SCALINGS:
        extra = min(extra, 4.0)  # one cast serves both layouts
    return Recipe(precision, linear, other, extra)


def low_precision(precision: str) -> Recipe:
    """The formats of a training precision, where no time is asked for."""
    linear = MATRIX_FORMAT[precision]
    return Recipe(precision, linear, linear if precision in ("fp32", "tf32", "fp16", "bf16") else "bf16", 0.0)


def quantised_gathers(operators: list[Operator], recipe: Recipe, plan: ResolvedPlan) -> list[Operator]:
    """Under sequence parallelism each rank casts its own rows, and the gathers carry the quantised tensor.

    That holds for the gathers before column products (and again for their weight gradients) and for those of a row
    product's output gradient; scatters add up partial sums and stay in 16 bits.

    Source: Transformer Engine 2.x, `module/layernorm_linear.py` and `module/linear.py` (gathers take the quantiser of
    the input or of the output's gradient); torchao's `Float8ColwiseParallel`, for tensor-wise scaling.
    """
    if not recipe.quantise_bytes or not plan.sp:
        return operators
    scale = OPERAND_BYTES[recipe.linear] / 2.0
    linear = {op.name for op in operators if op.kind == Kind.GEMM and op.number_class == "linear"}
    fed = {op.overlap_with for op in operators if op.axis == "tp" and op.collective == "all_gather"} & linear
    drained = {op.overlap_with for op in operators if op.axis == "tp" and op.backward_collective == "all_gather"}
    out = []
    for op in operators:
        if op.axis == "tp" and op.overlap_with in linear:
            forward = scale if op.collective == "all_gather" else 1.0
            backward = scale if op.backward_collective == "all_gather" else 1.0
            op = replace(
                op,
                size_bytes=op.size_bytes * forward,
                backward_size_bytes=(op.backward_size_bytes or op.size_bytes) * backward,
            )
        elif op.name in fed:
            op = replace(op, input_cast_share=1.0 / plan.tp)
        elif op.name in drained & linear:
            op = replace(op, grad_cast_share=1.0 / plan.tp)
        out.append(op)
    return out


_TWO_SCALINGS = frozenset({"fp8_rowwise"})
"""Scales along rows for one product and along columns for another: two casts, and the second reads its tensor twice."""
_LINEAR_MODULES = frozenset({"qkv", "proj", "fc1", "fc2", "moe", "shared_experts", "cross_qkv", "mla_up_proj"})
_KEPT_BYTES = {"fp8": 1.0 + 1.0 / 32.0, "fp4": 0.5 + 1.0 / 16.0}
"""One transposed copy for the weight gradient, with its block scales."""


def kept_bytes_scale(tensor: Tensor, recipe: Recipe) -> float:
    """Bytes kept until backward over the 16-bit size: inputs of low-precision GEMMs are kept quantised.

    A tensor that attention needs as well is kept in both forms.
    """
    low = _KEPT_BYTES.get(recipe.linear)
    if low is None or tensor.element_bytes != 2.0:
        return 1.0
    linear = [c for c in tensor.consumers if c in _LINEAR_MODULES]
    if not linear:
        return 1.0
    return low / 2.0 if len(linear) == len(tensor.consumers) else 1.0 + low / 2.0
