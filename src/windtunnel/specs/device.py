"""An accelerator, and the links around it, as data sheets give them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from windtunnel.specs.base import (
    Bytes,
    BytesPerS,
    FlopPerS,
    Hertz,
    LinkBytesPerS,
    MemoryBytes,
    MemoryBytesPerS,
    Seconds,
    Spec,
    Watts,
)

NumberFormat = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4", "int4"]


class MeasuredValue(Spec):
    """One coefficient of a profile."""

    value: float
    """In the coefficient's own unit."""
    grade: Literal["measured", "fitted"] = "measured"
    """Whether it was measured by itself or fitted together with others."""
    relative_error: float | None = Field(default=None, ge=0)
    """One standard error over the value."""
    source: str = ""
    """What it was measured with, and when."""


class Profile(Spec):
    """What was measured on a machine itself (`windtunnel calibrate`). It stands above every file of the catalogue."""

    coefficients: dict[str, MeasuredValue] = {}
    """Fields of `cost.coefficients.Coefficients`, entries of tables after a dot (`gemm_fraction.bf16`)."""
    network: dict[str, MeasuredValue] = {}
    """Parameters of collectives between the machine's devices: efficiency, hop_s, tau_s, base_s, p2p_base_s, p2p_tau_s,
    all_to_all_efficiency, switch_efficiency, channels; hop_scale and base_scale keep a library's ratios between its
    protocols."""
    serving: dict[str, MeasuredValue] = {}
    """Fields of `cost.serving.ServingCoefficients`; entries of tables after a dot."""
    conditions: dict[str, str | int | float] = {}
    """When, with which software, how many processes and threads, how noisy."""

    @field_validator("coefficients", "network", "serving", mode="before")
    @classmethod
    def _plain_numbers(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        numbers = {k: {"value": v} for k, v in value.items() if isinstance(v, int | float) and not isinstance(v, bool)}
        return {**value, **numbers}


class DeviceSpec(Spec):
    """One schedulable accelerator (a GCD of MI250X, a chip of TPU, a die pair of B200). All rates are dense peaks."""

    id: str
    """Name of the catalogue's file, in lower case."""
    name: str
    """As the vendor calls it."""
    vendor: str
    """Who makes it."""
    kind: Literal["gpu", "tpu", "npu", "cpu", "dataflow", "pim", "fpga", "phone", "mcu"] = "gpu"
    """Kind of processor."""
    generation: str
    """Architecture that coefficients are keyed by: volta, ampere, ada, hopper, blackwell, cdna2, cdna3, tpu_v5p …"""
    aliases: tuple[str, ...] = ()
    """Other spellings that scenarios may use."""
    peak_flop_per_s: dict[NumberFormat, FlopPerS]
    """Dense peak of matrix products by number format."""
    memory_bytes: MemoryBytes = Field(gt=0)
    """Device memory as the driver reports it."""
    memory_bytes_per_s: MemoryBytesPerS = Field(gt=0)
    """Peak rate of the device memory, reads and writes together."""
    l2_bytes: Bytes = 0.0
    """Last-level cache on the device; 0: not known."""
    rereads: bool = False
    """Whether products read operands again that the last-level cache (`l2_bytes`) could not keep. What is fitted to
    measured rows has it in its fractions."""
    num_sms: int = Field(default=1, gt=0)
    """Independent compute units that tiles are spread over (SMs, CUs, tensor cores of a TPU)."""
    gemm_tiles: tuple[tuple[int, int], ...] = (
        (256, 128),
        (128, 256),
        (128, 128),
        (128, 64),
        (64, 128),
        (64, 64),
        (32, 32),
    )
    """Output tiles, rows by columns, that matrix products are cut into."""
    clock_hz: Hertz | None = None
    """Highest clock, at which the peaks hold."""
    base_clock_hz: Hertz | None = None
    """Clock that the vendor guarantees under load."""
    idle_w: Watts | None = None
    """Watts of a device that does nothing."""
    tdp_w: Watts | None = None
    """Watts that the board may draw."""
    pcie_bytes_per_s: BytesPerS = 32e9
    """Host link, one direction."""
    scale_up: str | None = None
    """Default link id inside the node (catalog/links)."""
    price_per_hour: float | None = None
    """List price, US dollars an hour."""
    sources: dict[str, str] = {}
    """Field name → "source, as of date"; every numeric field has an entry (checked by `catalog check`)."""
    as_of: str = ""
    """When the figures were read."""
    notes: str = ""
    """What a reader should know beside the figures."""
    profile: Profile | None = None
    """Measured on the machine itself."""

    def peak(self, number_format: str) -> float:
        """Dense FLOP/s in a format; the nearest wider format stands in where the sheet has none.

        Raises:
            KeyError: the device has no matrix rate at all for this family of formats.
        """
        chain = {
            "fp4": ("fp4", "fp8", "int8", "bf16", "fp16", "fp32"),
            "fp8": ("fp8", "bf16", "fp16", "fp32"),
            "int8": ("int8", "fp8", "bf16", "fp16", "fp32"),
            "int4": ("int4", "int8", "fp8", "bf16", "fp16", "fp32"),
            "bf16": ("bf16", "fp16", "fp32"),
            "fp16": ("fp16", "bf16", "fp32"),
            "tf32": ("tf32", "fp32"),
            "fp32": ("fp32", "tf32"),
            "fp64": ("fp64", "fp32"),
        }
        for name in chain[number_format]:
            for known, rate in self.peak_flop_per_s.items():
                if known == name:
                    return rate
        raise KeyError(f"{self.id} has no {number_format} rate")


class LinkSpec(Spec):
    """One level of a network as a device or node sees it."""

    id: str
    """Name of the catalogue's file, in lower case."""
    name: str = ""
    """As the vendor calls it."""
    bytes_per_s: LinkBytesPerS = Field(gt=0)
    """One direction, per endpoint (device for scale-up, port for scale-out)."""
    flow_bytes_per_s: BytesPerS | None = Field(default=None, gt=0)
    """Most that one message between two endpoints reaches, where it is less than the port (cards behind unlike PCIe
    switches, copies through the host); absent: what the link's family reaches."""
    latency_s: Seconds = Field(default=2e-6, ge=0)
    """Seconds of an empty message between two endpoints."""
    topology: Literal["switch", "mesh", "ring", "torus", "host"] = "switch"
    """How the endpoints are joined."""
    torus_axes: int = 0
    """Torus links come in pairs per axis; `bytes_per_s` is then the sum over axes."""
    torus_wrap: int = Field(default=1, gt=0)
    """A side of a slice closes its ring when it is a multiple of this (in three dimensions: when all sides are)."""
    in_network_reduction: bool = False
    """NVLS or SHARP is available."""
    family: str = ""
    """nvlink3, nvlink4, nvlink5, pcie4, xgmi3, ici_v5p, infiniband, roce, ethernet, efa, slingshot, omnipath …"""
    aliases: tuple[str, ...] = ()
    """Other spellings that scenarios may use."""
    sources: dict[str, str] = {}
    """Field → source and date."""
    as_of: str = ""
    """When the figures were read."""
