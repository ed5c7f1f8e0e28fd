"""Build the time chain of a prepared step: price it with one cost at its ideal at a time, and compare the launches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windtunnel.cost.attention import TF32_PRODUCTS, fused_peak_flop_per_s
from windtunnel.cost.framework_defaults import FULL_PRECISION
from windtunnel.cost.provenance import Provenance, provenance
from windtunnel.engine import simulate
from windtunnel.program.segment import Launch
from windtunnel.schedules.table import F
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import applied
from windtunnel.training.accounting.breakdown import breakdown, class_of, last_stage_tasks, passes
from windtunnel.training.explain.time_chain import Chain, Collector, OperatorLine, Sheet, Term
from windtunnel.training.offload.memory_tiers import HOST_LINK_FRACTION, drive_bytes_per_s, host_memory_bytes_per_s
from windtunnel.training.prepare_step import decided_plan
from windtunnel.training.step_setup import PreparedStep, StepRequest, prepare_at
from windtunnel.training.task_builder import (
    RATES,
    S_FROM_HOST,
    S_HOST,
    S_READ,
    S_TO_HOST,
    S_WRITE,
    STREAMS,
    T_GATHER,
    T_OFFLOAD,
    T_OPTIMIZER,
    T_REDUCE,
    T_SEND,
)

_NO_START: dict[str, Any] = {
    "gemm_floor_s": 0.0,
    "group_s": 0.0,
    "attention_floor_s": 0.0,
    "collective_skew_s": 0.0,
    "step_overhead_s": 0.0,
}
_NO_CAST = _NO_START | {"quantise_bytes": {}}
_NO_STREAM = _NO_CAST | {"memory_fraction": 1e15}
_NO_ACCUMULATE = _NO_STREAM | {"accumulate_exposed": 0.0}
_NO_MEMORY_LIMIT = _NO_ACCUMULATE | {"gemm_bytes_fraction": 1e15}
_SAME = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """The step as it is, and the step priced without some of its costs; launches correspond one to one."""

    actual: PreparedStep
    no_start: PreparedStep
    no_cast: PreparedStep
    no_stream: PreparedStep
    no_accumulate: PreparedStep
    no_memory_limit: PreparedStep
    free_optimizer: PreparedStep


def variant(prepared: PreparedStep, scenario: Scenario, overrides: dict[str, Any]) -> PreparedStep:
    """The same step at the same clock under other coefficients."""
    x, techniques = prepared, applied(scenario.techniques)
    plan, _ = decided_plan(scenario.plan, x.training, x.cluster, x.model, techniques)
    request = StepRequest(
        model=x.model,
        cluster=x.cluster,
        training=x.training,
        plan=plan,
        techniques=techniques,
        coefficient_overrides=overrides,
    )
    return prepare_at(request, x.clock)


def build_chain(prepared: PreparedStep, scenario: Scenario) -> Chain:
    """Build the time chain of a step.

    Args:
        prepared: The step.
        scenario: The scenario that it was prepared from.
    """
    timeline = simulate(prepared.program.tasks, prepared.program.streams, prepared.program.resources)
    tasks = last_stage_tasks(prepared.program, timeline)
    variants = Variants(
        actual=prepared,
        no_start=variant(prepared, scenario, _NO_START),
        no_cast=variant(prepared, scenario, _NO_CAST),
        no_stream=variant(prepared, scenario, _NO_STREAM),
        no_accumulate=variant(prepared, scenario, _NO_ACCUMULATE),
        no_memory_limit=variant(prepared, scenario, _NO_MEMORY_LIMIT),
        free_optimizer=variant(prepared, scenario, _NO_START | {"optimizer_fraction": 1.0}),
    )
    shares = breakdown(prepared.program, timeline, prepared.stages)
    builder = _ChainBuilder(
        variants, provenance(prepared.training.framework, prepared.cluster.device, prepared.cluster)
    )
    builder.add_segments(tasks)
    builder.add_step(tasks, shares)
    return builder.collector.chain(
        timeline.makespan_s, shares, prepared.clock, int(prepared.program.stage[tasks[0]]), prepared.cluster.device.id
    )


def device_sheet(device: DeviceSpec, field: str, value: float, unit: str, name: str) -> Sheet:
    """Data-sheet rate of a device, with the source that its catalogue file gives."""
    source = device.sources.get(field, "")
    return Sheet(name, value, unit, source or "given by the scenario", "measured" if source else "assumed")


def peak_sheet(device: DeviceSpec, number_format: str) -> Sheet:
    """Dense matrix rate of a number format; the name says where a wider format stands in."""
    value = device.peak(number_format)
    wide = number_format not in device.peak_flop_per_s
    name = f"{number_format} peak" + (" (a wider format stands in)" if wide else "")
    return device_sheet(device, "peak_flop_per_s", value, "FLOP/s", name)


def link_sheet(cluster: ClusterSpec, outside: bool) -> Sheet:
    """Rate of a device's scale-up link, or (`outside`) of its share of the node's NICs."""
    if outside:
        nics, each = cluster.scale_out.nics_per_node, cluster.scale_out.nic_bytes_per_s
        source = f"{nics} x {each / 1e9:g} GB/s {cluster.scale_out.family} for {cluster.devices_per_node} devices"
        grade = "assumed" if any(a[0].startswith("cluster.scale_out") for a in cluster.assumed) else "measured"
        return Sheet("scale-out link", cluster.nic_bytes_per_s_per_device, "B/s", source, grade)
    up = cluster.scale_up
    return Sheet("scale-up link", up.bytes_per_s, "B/s", up.sources.get("bytes_per_s", up.name or up.id))


_KERNELS = {"gemm": "gemm", "grouped gemm": "gemm", "attention": "attention", "scan": "scan"}


def _kernel(launch: Launch) -> str:
    """Class of a launch's kernel, by the names of `importers.kernel_names`."""
    if launch.kind == "collective":
        return "send-receive" if launch.operation == "ring_exchange" else launch.operation.replace("_", "-")
    return _KERNELS.get(launch.kind, "memory bound")


def _cut_shape(launch: Launch) -> tuple[float, ...]:
    """(m, n, k, groups) that one launch multiplies: a row block of the product where an overlap pass cut it."""
    if launch.kind != "gemm" or launch.phase not in ("F", "D") or not launch.flop:
        return launch.shape
    _, n, k, groups = launch.shape
    return (launch.flop / (2.0 * n * k * groups), n, k, groups)


@dataclass(frozen=True, slots=True)
class _HostPath:
    """A path between a device and memory outside it."""

    streams: tuple[int, ...]
    """Streams whose tasks take the path."""
    name: str
    sheet: Sheet
    coefficients: tuple[Provenance, ...] = ()
    sharers: float = 1.0
    """Devices that share the path."""
    rest_name: str = ""

    @property
    def bytes_per_s(self) -> float:
        """Rate of one device on the path."""
        rate = self.sheet.value
        for factor in self.coefficients:
            rate *= factor.value
        return rate / self.sharers


class _ChainBuilder:
    """Collects the terms of one step."""

    def __init__(self, variants: Variants, known: dict[str, Provenance]) -> None:
        self.variants, self.prepared, self.known, self.collector = variants, variants.actual, known, Collector()
        device = self.prepared.cluster.device
        self.memory = device_sheet(
            device, "memory_bytes_per_s", device.memory_bytes_per_s, "B/s", "device memory bandwidth"
        )

    def coefficient(self, name: str) -> Provenance:
        """Coefficient of this name as the step uses it: under its power cap's clock and with its overrides."""
        key, _, entry = name.partition(".")
        value = getattr(self.prepared.coefficients, key)
        if entry:
            value = value.get(entry, next(iter(value.values())))
        given = self.known.get(name) or Provenance(
            name=name,
            value=value,
            grade="assumed",
            relative_error=None,
            source="default of the model",
            prior=None,
            level="",
        )
        if abs(given.value - value) <= _SAME * abs(value):
            return given
        why = "at this board's power" if self.prepared.clock == 1.0 else f"at {self.prepared.clock:.0%} of the clock"
        if name in ("host_kernel_s", "collective_skew_s"):
            why = "over several nodes"
        return replace(given, value=float(value), source=f"{given.source}, {why}")

    def link(self, outside: bool) -> tuple[Provenance, ...]:
        """Coefficients of a link: efficiency of its family, and the software's factor on it."""
        params = self.prepared.stages.network.params
        family = params.out if outside else params.up
        grade = "measured" if "(fact)" in family.source and "rate assumed" not in family.source else "assumed"
        efficiency = Provenance(
            name="link efficiency",
            value=family.efficiency,
            grade=grade,
            relative_error=None,
            source=family.source,
            prior=None,
            level="",
        )
        scale = self.coefficient("scale_out_scale" if outside else "scale_up_scale")
        return (efficiency,) if scale.value == 1.0 and scale.grade == "assumed" else (efficiency, scale)

    # -- launches of the segments ------------------------------------------------------------------------------------
    def add_segments(self, tasks: Any) -> None:
        """Add kernels, collectives inside blocks, and the host."""
        stages = self.prepared.stages
        count = np.zeros(len(stages.segments))
        for direction, k, scale in passes(self.prepared.program, stages, tasks):
            for segments, number in stages.uses[k]:
                count[segments[direction]] += scale * number
        for s in np.flatnonzero(count):
            times, times_of = (
                stages.segment_times[s],
                [
                    p.stages.segments[s].launches
                    for p in (
                        self.variants.actual,
                        self.variants.no_start,
                        self.variants.no_cast,
                        self.variants.no_stream,
                        self.variants.no_accumulate,
                        self.variants.no_memory_limit,
                    )
                ],
            )
            for j, launch in enumerate(stages.segments[s].launches):
                seconds = [launches[j].alone_s for launches in times_of]
                self._launch(launch, seconds, float(count[s]), times.exposed_s[j] * float(count[s]))
            self._host(times.host_s, times.sync_s, times.total_s - times.device_s, float(count[s]))

    def _beside_products(self) -> str:
        """What products of forward and of input gradients move next to their operands."""
        return "adapters" if self.prepared.training.phase == "lora" else "bytes next to operands"

    def _launch(self, launch: Launch, seconds: list[float], count: float, exposed: float) -> None:
        full, no_start, no_cast, no_stream, no_accumulate, no_limit = seconds
        time_class = class_of(launch.tag)
        bare = launch.kind in ("gemm", "grouped gemm")
        # memory decides where leaving the bytes out would save more than the wait for the gradient buffer
        limited = bare and no_accumulate > no_limit * (1 + _SAME) and no_stream <= no_accumulate * (1 + _SAME)
        core = no_start if not bare else no_stream if limited else no_limit
        pieces = [(core, self._core(launch, time_class, core, limited))]
        if bare and not limited:
            waits, used = no_stream - no_limit, (self.coefficient("gemm_bytes_fraction"),)
            note = (
                f"{self.prepared.coefficients.accumulate_exposed:g} of the bytes of the gradient buffer are waited for"
            )
            name = "accumulation next to products"
            term = Term(
                time_class=time_class,
                name=name,
                sheet=self.memory,
                coefficients=used,
                rest_name="",
                unit="B",
                note=note,
            )
            pieces.append((waits, replace(term, work=waits * term.nominal)))
        if bare:
            casts = no_start - no_cast
            name, used = f"casts to {launch.number_format}", (self.coefficient("memory_fraction"),)
            term = Term(
                time_class=time_class,
                name=name,
                sheet=self.memory,
                coefficients=used,
                rest_name="",
                unit="B",
                kernel="memory bound",
            )
            pieces.append((casts, replace(term, work=casts * term.nominal)))
            adds = no_cast - no_stream
            name = "gradient accumulation" if launch.phase == "W" else self._beside_products()
            pieces.append((adds, replace(term, name=name, work=adds * term.nominal)))
        pieces.append((full - no_start, self._start(launch, time_class)))
        busy = sum(s for s, _ in pieces) or 1.0
        for value, term in pieces:
            if value > 0:
                self.collector.add(
                    replace(
                        term,
                        kernel=term.kernel or _kernel(launch),
                        work=term.work * count,
                        busy_s=value * count,
                        exposed_s=exposed * value / busy,
                        count=count,
                    )
                )
        self.collector.add_operator(
            OperatorLine(
                time_class=time_class,
                name=launch.name,
                phase=launch.phase,
                kind=launch.operation or launch.kind,
                number_format=launch.number_format,
                shape=_cut_shape(launch),
                limit=self._limit(launch, full, limited, full - no_start),
                count=count,
                each_s=full,
                busy_s=full * count,
                exposed_s=exposed,
                flop=launch.flop,
                moved_bytes=max(launch.up_bytes, launch.out_bytes) or launch.hbm_bytes,
            )
        )

    def _limit(self, launch: Launch, full: float, limited: bool, start: float) -> str:
        if launch.kind == "collective":
            return "start" if launch.latency_s > 0.5 * full else "link"
        if start > 0.5 * full:
            return "start"
        if launch.kind in ("memory_bound", "softmax") or limited:
            return "memory"
        return "compute"

    def _core(self, launch: Launch, time_class: str, core: float, limited: bool) -> Term:
        device = self.prepared.cluster.device
        if launch.kind == "collective":
            return self._transfer(launch, time_class)
        if launch.kind in ("gemm", "grouped gemm"):
            fmt = launch.number_format
            if limited:  # what its bytes take
                moved = core * self.memory.value * self.prepared.coefficients.gemm_bytes_fraction
                used = (self.coefficient("gemm_bytes_fraction"),)
                name = f"{launch.kind} {fmt}, limited by memory"
                return Term(
                    time_class=time_class,
                    name=name,
                    sheet=self.memory,
                    coefficients=used,
                    rest_name="",
                    work=moved,
                    unit="B",
                )
            unaligned = ", unaligned" if any(x.startswith("unaligned") for x in launch.fractions) else ""
            return Term(
                time_class=time_class,
                name=f"{launch.kind} {fmt}{unaligned}",
                sheet=peak_sheet(device, fmt),
                coefficients=tuple(self.coefficient(n) for n in launch.fractions),
                rest_name="tiles, waves, k ramp",
                work=launch.flop,
                unit="FLOP",
            )
        if launch.kind == "attention":
            backward = launch.phase == "D"
            names = [f"attention_fraction.{self.prepared.plan.attention}"]
            names += ["attention_backward"] if backward else []
            return Term(
                time_class=time_class,
                name=f"attention {'backward' if backward else 'forward'}",
                sheet=self._attention_sheet(),
                coefficients=tuple(self.coefficient(n) for n in names),
                rest_name="sequence ramp, head size",
                work=launch.flop,
                unit="FLOP",
            )
        if launch.kind == "scan":
            return Term(
                time_class=time_class,
                name="scan",
                sheet=peak_sheet(device, "tf32" if self._full else "bf16"),
                coefficients=(self.coefficient("scan_fraction"),),
                rest_name="and its bytes",
                work=launch.flop,
                unit="FLOP",
            )
        softmax = launch.kind == "softmax"
        names = ["memory_fraction", *(["softmax_fraction"] if softmax else [])]
        return Term(
            time_class=time_class,
            name="softmax" if softmax else "element-wise",
            sheet=self.memory,
            coefficients=tuple(self.coefficient(n) for n in names),
            rest_name="",
            work=launch.hbm_bytes,
            unit="B",
        )

    @property
    def _full(self) -> bool:
        return self.prepared.training.precision in FULL_PRECISION

    def _attention_sheet(self) -> Sheet:
        """Data-sheet rate of the units that fused attention runs on."""
        device = self.prepared.cluster.device
        if not self._full:
            return peak_sheet(device, "bf16")
        rate = fused_peak_flop_per_s(device, "fp32")
        cores = rate == device.peak("fp32")
        return replace(
            peak_sheet(device, "fp32" if cores else "tf32"),
            value=rate,
            name="fp32 peak" if cores else f"tf32 peak / {TF32_PRODUCTS:g} (split operands)",
        )

    def _transfer(self, launch: Launch, time_class: str) -> Term:
        cluster = self.prepared.cluster
        up, out = link_sheet(cluster, False), link_sheet(cluster, True)
        outside = launch.out_bytes / out.value > launch.up_bytes / up.value
        work = launch.out_bytes if outside else launch.up_bytes
        name = f"{launch.tag} {launch.operation.replace('_', '-')}, {launch.ranks:g} ranks"
        note = f"{launch.algorithm}, {launch.latency_s * 1e6:.0f} µs before the first byte"
        return Term(
            time_class=time_class,
            name=name,
            sheet=out if outside else up,
            coefficients=self.link(outside),
            rest_name="starts, hops, protocol, shared ports",
            work=work,
            unit="B",
            note=note,
        )

    def _start(self, launch: Launch, time_class: str) -> Term:
        if launch.kind == "collective":
            name, what = "collective_skew_s", f"skew of {launch.operation.replace('_', '-')}"
        elif launch.kind == "attention":
            name, what = "attention_floor_s", "attention starts"
        else:
            name, what = "gemm_floor_s", "kernel starts"
        names = ("gemm_floor_s", "group_s") if launch.kind == "grouped gemm" else (name,)
        used = self.coefficient(names[-1])
        return Term(
            time_class=time_class,
            name=f"{what}" + (", groups" if len(names) > 1 else ""),
            sheet=None,
            coefficients=(used,),
            rest_name="",
            work=1.0,
            unit="starts",
        )

    def _host(self, host_s: float, sync_s: float, exposed: float, count: float) -> None:
        c = self.prepared.coefficients
        waiting = max(exposed - sync_s, 0.0)
        if host_s > 0:
            self.collector.add(
                Term(
                    time_class="host",
                    name="launches",
                    sheet=None,
                    coefficients=(self.coefficient("host_kernel_s"),),
                    rest_name="",
                    work=host_s / c.host_kernel_s * count,
                    unit="launches",
                    busy_s=host_s * count,
                    exposed_s=waiting * count,
                    count=host_s / c.host_kernel_s * count,
                )
            )
        if sync_s > 0:
            router = c.moe_sync_s > 0
            self.collector.add(
                Term(
                    time_class="host",
                    name="reads of the router" if router else "operators behind reads",
                    sheet=None,
                    coefficients=(self.coefficient("moe_sync_s" if router else "operator_host_s"),),
                    rest_name="",
                    work=sync_s / (c.moe_sync_s or c.operator_host_s) * count,
                    unit="layers" if router else "operators",
                    busy_s=sync_s * count,
                    exposed_s=sync_s * count,
                    count=count,
                )
            )

    # -- the step around them -----------------------------------------------------------------------------------------
    def add_step(self, tasks: Any, shares: dict[str, float]) -> None:
        """Add pipeline messages, data-parallel traffic, copies to the host and the optimizer."""
        prepared, program = self.prepared, self.prepared.program
        stage = int(program.stage[tasks[0]])
        mine = program.stage == stage
        tag, alone = program.tasks.tag, program.tasks.alone_s

        def rows(kind: int) -> Any:
            return np.flatnonzero(mine & (tag == kind) & (alone > 0))

        sends = rows(T_SEND)
        crossing = self._crossing(sends) if len(sends) else np.zeros(0, np.bool_)
        for outside in (True, False):
            ids = sends[crossing == outside]
            if len(ids):
                name = "pp send-receive" if outside or not crossing.any() else "pp inside the node, send-receive"
                self._traffic("exposed pp", name, outside, prepared.stages.p2p_bytes * len(ids), ids, shares)
        plain = prepared.plan.zero == 0 or not prepared.behaviour.shard_optimizer
        for kind, name in (
            (T_REDUCE, "dp gradient " + ("all-reduce" if plain else "reduce-scatter")),
            (T_GATHER, "dp parameter all-gather"),
        ):
            ids = rows(kind)
            if len(ids):
                up, out = (self._work(ids, stage * len(RATES) + rate) for rate in (2, 3))
                outside = out / prepared.cluster.nic_bytes_per_s_per_device > up / prepared.cluster.scale_up.bytes_per_s
                self._traffic("exposed dp", name, outside, out if outside else up, ids, shares)
        copies = rows(T_OFFLOAD)
        if len(copies):
            self._offload(copies, shares)
        self._optimizer(stage, float(alone[rows(T_OPTIMIZER)].sum()))

    def _crossing(self, sends: Any) -> Any:
        """Mask of the pipeline messages that leave the scale-up network, shape (len(sends),)."""
        program, table = self.prepared.program, self.prepared.schedule
        row = program.row[sends]
        part = program.virtual_stage[row]
        stage_of = table.placement[:, 0].astype(np.int64)
        target = np.clip(np.where(table.kind[row] == F, part + 1, part - 1), 0, len(stage_of) - 1)
        stride, domain = self.prepared.stages.mesh.strides["pp"], self.prepared.cluster.scale_up_domain
        return stage_of[part] * stride // domain != stage_of[target] * stride // domain

    def _work(self, ids: Any, rate: int) -> float:
        tasks = self.prepared.program.tasks
        total = 0.0
        for i in ids:
            a, b = tasks.rate_ptr[i], tasks.rate_ptr[i + 1]
            total += float(tasks.rate_work[a:b][tasks.rate_idx[a:b] == rate].sum())
        return total

    def _traffic(
        self, time_class: str, name: str, outside: bool, work: float, ids: Any, shares: dict[str, float]
    ) -> None:
        busy = float(self.prepared.program.tasks.alone_s[ids].sum())
        sheet, used = link_sheet(self.prepared.cluster, outside), self.link(outside)
        place = self.prepared.stages.dp_place
        if outside and time_class == "exposed dp" and place.ranks_per_domain > 1 and place.groups_per_domain > 1:
            scale = self.coefficient("partial_node_scale")
            used = (*used, scale) if scale.value != 1.0 else used
        if not work:  # a message without a load on shared links: its bytes at the link's rate
            used, work = (), busy * sheet.value
        exposed = shares.get(time_class, 0.0)
        known = sum(t.busy_s for (c, _), t in self.collector.terms.items() if c == time_class)
        if known:  # the transfers of a class are exposed together: by their busy time
            for (c, _), t in self.collector.terms.items():
                if c == time_class:
                    t.exposed_s = exposed * t.busy_s / (known + busy)
        self.collector.add(
            Term(
                time_class=time_class,
                name=name,
                sheet=sheet,
                coefficients=used,
                rest_name="starts, hops, protocol, shared ports",
                work=work,
                unit="B",
                busy_s=busy,
                exposed_s=exposed * busy / (known + busy),
                count=len(ids),
                kernel=name.rsplit(maxsplit=1)[-1],
            )
        )

    def _offload(self, ids: Any, shares: dict[str, float]) -> None:
        """Add copies over the host link, drives, and updates on the host; each has its share of the exposed time."""
        tasks = self.prepared.program.tasks
        stream, busy = tasks.stream_idx[ids] % len(STREAMS), tasks.alone_s[ids]
        total_s, exposed_s = float(busy.sum()), shares.get("exposed offload", 0.0)
        for path in self._host_paths():
            on_path = np.isin(stream, path.streams)
            seconds = float(busy[on_path].sum())
            if seconds <= 0:
                continue
            self.collector.add(
                Term(
                    time_class="exposed offload",
                    name=path.name,
                    sheet=path.sheet,
                    coefficients=path.coefficients,
                    rest_name=path.rest_name,
                    work=seconds * path.bytes_per_s,
                    unit="B",
                    busy_s=seconds,
                    exposed_s=exposed_s * seconds / total_s,
                    count=int(on_path.sum()),
                    kernel=path.name,
                )
            )

    def _host_paths(self) -> tuple[_HostPath, ...]:
        """Paths of offloaded tensors, with the rates that their copies are compared with."""
        cluster = self.prepared.cluster
        device = cluster.device
        payload = Provenance(
            name="payload of a host link",
            value=HOST_LINK_FRACTION,
            grade="assumed",
            relative_error=None,
            source="packet headers and flow control",
            prior=None,
            level="",
        )
        link = device_sheet(device, "pcie_bytes_per_s", device.pcie_bytes_per_s, "B/s", "host link")
        source = "the node's, shared by its devices" if cluster.storage else "assumed: drives of one device"
        read, write = (drive_bytes_per_s(cluster, write=writes) for writes in (False, True))
        memory = Sheet("host memory", host_memory_bytes_per_s(cluster), "B/s", "one device's share", "assumed")
        return (
            _HostPath(
                streams=(S_TO_HOST, S_FROM_HOST),
                name="copies to and from the host",
                sheet=link,
                coefficients=(payload,),
                sharers=cluster.devices_per_host_link,
                rest_name="devices on one link, host memory, cards",
            ),
            _HostPath((S_READ,), "reads of drives", Sheet("drives, reading", read, "B/s", source, "assumed")),
            _HostPath((S_WRITE,), "writes to drives", Sheet("drives, writing", write, "B/s", source, "assumed")),
            _HostPath((S_HOST,), "updates on the host", memory, rest_name="cores, cards"),
        )

    def _optimizer(self, stage: int, busy: float) -> None:
        core, ideal = (
            float(p.program.tasks.alone_s[(p.program.stage == stage) & (p.program.tasks.tag == T_OPTIMIZER)].sum())
            for p in (self.variants.no_start, self.variants.free_optimizer)
        )
        fixed = busy - core
        if core > 0:
            on_device = core > ideal * (1 + _SAME)
            used = (self.coefficient("optimizer_fraction"),) if on_device else ()
            device = self.prepared.cluster.device
            sheet = self.memory
            if not on_device and self.prepared.plan.offload.optimizer:
                sheet = device_sheet(device, "pcie_bytes_per_s", device.pcie_bytes_per_s, "B/s", "host link")
            name = "update" if on_device else "update on the host"
            rest = "" if on_device else "host memory or drives"
            self.collector.add(
                Term(
                    time_class="optimizer",
                    name=name,
                    sheet=sheet,
                    coefficients=used,
                    rest_name=rest,
                    work=ideal * sheet.value,
                    unit="B",
                    busy_s=core,
                    exposed_s=core,
                    count=1.0,
                )
            )
        if fixed > 0:
            used_s = self.coefficient("step_overhead_s")
            self.collector.add(
                Term(
                    time_class="optimizer",
                    name="fixed part of a step",
                    sheet=None,
                    coefficients=(used_s,),
                    rest_name="",
                    work=1.0,
                    unit="steps",
                    busy_s=fixed,
                    exposed_s=fixed,
                    count=1.0,
                )
            )
