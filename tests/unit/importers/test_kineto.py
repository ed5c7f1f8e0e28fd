"""Profiler traces in PyTorch's public format, written here: classes, exposed time, steps, files that are no traces."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kineto_traces import NVJET, Event, kernel, step_range, write

from windtunnel.errors import BadInput
from windtunnel.importers.kernel_names import kernel_class
from windtunnel.importers.kineto import read_kineto


def steps(count: int = 4, period: float = 1000.0) -> list[Event]:
    """Steps of 1 ms: 400 µs of products, a gather half under them, a reduction alone, elementwise, Adam, idle."""
    events: list[Event] = []
    for n in range(count):
        t = 10_000 + n * period
        events.append(step_range(n, t - 50, t + period - 50))
        events += kernel(NVJET, t, 300)
        events += kernel("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", t + 200, 200, stream=20)
        events += kernel("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<...>>>", t + 400, 100)
        events += kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(...)", t + 500, 50, stream=24)
        events += kernel("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>", t + 550, 150)
        events += kernel("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>", t + 700, 100)
        events += kernel("Memcpy HtoD (Pageable -> Device)", t + 780, 40, stream=8)
        events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 99, "tid": 99, "ts": t, "dur": 3.0})
    events.append({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}})
    return events


@pytest.mark.parametrize("name", ["rank0.pt.trace.json", "rank0.pt.trace.json.gz"])
def test_classes_partition_the_step(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, steps(), distributedInfo={"backend": "nccl", "rank": 3, "world_size": 8})
    trace = read_kineto(path)
    assert trace.step_time_s == pytest.approx(1e-3)
    assert (trace.rank, trace.world_size) == (3, 8)
    exposed = {k: round(c.exposed_s * 1e6, 6) for k, c in trace.classes.items()}
    assert exposed == {
        "gemm": 300,
        "attention": 100,
        "memory bound": 150,
        "optimizer": 100,
        "all-gather": 100,
        "reduce-scatter": 50,
        "copies to and from the host": 20,
    }
    assert trace.classes["all-gather"].busy_s == pytest.approx(200e-6)
    assert trace.classes["copies to and from the host"].busy_s == pytest.approx(40e-6)
    assert trace.idle_s == pytest.approx(180e-6)
    assert sum(c.exposed_s for c in trace.classes.values()) + trace.idle_s == pytest.approx(trace.step_time_s)
    assert trace.num_kernels == 7


def test_the_median_step_counts_and_the_last_one_has_no_end(tmp_path: Path) -> None:
    events: list[Event] = []
    at = 0.0
    for n, length in enumerate((5000, 900, 1000, 1100, 1000)):
        events.append(step_range(n, at - 10, at + length - 10))
        events += kernel(NVJET, at, 100 + n)
        at += length
    trace = read_kineto(write(tmp_path / "t.json", events))
    assert trace.step_time_s == pytest.approx(1000e-6)
    assert trace.classes["gemm"].busy_s == pytest.approx(102e-6)
    assert [round(s * 1e6) for s in trace.steps_s] == [5000, 900, 1000, 1100, 104]


def test_kernels_belong_to_the_step_that_launched_them(tmp_path: Path) -> None:
    """The device runs late: kernels of step 0 still run when the host is in step 1."""
    events = [step_range(n, n * 100, (n + 1) * 100) for n in range(3)]
    for n in range(3):
        events += kernel(NVJET, 500 + n * 1000, 900, launched=n * 100 + 50)
    trace = read_kineto(write(tmp_path / "t.json", events))
    assert trace.step_time_s == pytest.approx(1000e-6)
    assert trace.idle_s == pytest.approx(100e-6)


def test_overlapping_streams_are_counted_once(tmp_path: Path) -> None:
    events = [step_range(0, 0, 1000), step_range(1, 1000, 2000)]
    events += kernel(NVJET, 10, 100) + kernel("ampere_sgemm_128x64_tn", 50, 100, stream=9)
    events += kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100, 100, stream=20)
    events += kernel("ncclDevKernel_SendRecv", 180, 40, stream=21) + kernel(NVJET, 1010, 10)
    trace = read_kineto(write(tmp_path / "t.json", events))
    assert trace.classes["gemm"].busy_s == pytest.approx(200e-6)
    assert trace.classes["gemm"].exposed_s == pytest.approx(140e-6)
    assert trace.classes["all-reduce"].exposed_s == pytest.approx(50e-6)
    assert trace.classes["send-receive"].exposed_s == pytest.approx(20e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "gemm"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128>", "gemm"),
        (NVJET, "gemm"),
        ("Cijk_Alik_Bljk_BBS_BH_MT256x256x64", "gemm"),
        ("triton_tem_fused_mm_3", "gemm"),
        ("void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_7", "attention"),
        ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80", "attention"),
        ("triton_poi_fused_add_mm_native_layer_norm_5", "memory bound"),
        ("triton_for_fused_2", "optimizer"),
        ("void transformer_engine::normalization::rmsnorm_fwd_general_kernel", "memory bound"),
        ("void transformer_engine::cast_transpose_fused_kernel", "memory bound"),
        ("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamCapturableMasterFunctor>", "optimizer"),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward", "memory bound"),
        ("void at::native::(anonymous namespace)::indexSelectLargeIndex", "memory bound"),
        ("_chunk_scan_fwd_kernel", "scan"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float", "all-reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce-scatter"),
        ("ncclDevKernel_Broadcast_RING_LL", "broadcast"),
        ("void deep_ep::internode::dispatch<...>", "all-to-all"),
        ("my_own_thing", "other kernels"),
    ],
)
def test_kernel_names(name: str, expected: str) -> None:
    assert kernel_class(name) == expected


def test_send_receive_kernels_are_what_the_operation_says(tmp_path: Path) -> None:
    assert kernel_class("ncclDevKernel_SendRecv(...)", "all_to_allv") == "all-to-all"
    assert kernel_class("ncclDevKernel_SendRecv(...)", "send") == "send-receive"
    events = [step_range(0, 0, 1000), step_range(1, 1000, 2000), *kernel(NVJET, 1010, 10)]
    events += kernel("ncclDevKernel_SendRecv", 10, 100, stream=20, **{"External id": 42})
    events.append(
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "record_param_comms",
            "pid": 99,
            "tid": 99,
            "ts": 1,
            "dur": 2,
            "args": {"External id": 42, "Collective name": "all_to_all"},
        }
    )
    assert set(read_kineto(write(tmp_path / "t.json", events)).classes) == {"all-to-all"}


def test_unknown_kernels_are_named(tmp_path: Path) -> None:
    events = [step_range(0, 0, 1000), step_range(1, 1000, 2000), *kernel("mystery", 10, 100), *kernel(NVJET, 1010, 10)]
    trace = read_kineto(write(tmp_path / "t.json", events))
    assert trace.unknown == (("mystery", pytest.approx(100e-6)),)


def test_chromes_array_form_and_large_preambles(tmp_path: Path) -> None:
    plain = tmp_path / "t.json"
    plain.write_text(json.dumps(steps()))
    assert read_kineto(plain).step_time_s == pytest.approx(1e-3)
    padded = write(tmp_path / "u.json", steps(), metadata="x" * (1 << 23))
    assert read_kineto(padded).step_time_s == pytest.approx(1e-3)


def test_what_is_no_trace_is_one_line(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.json.gz", steps()).read_bytes()
    text = write(tmp_path / "whole.json", steps()).read_text()
    cases = {
        "cut.json.gz": (whole[: len(whole) // 2], "truncated"),
        "cut.json": (text[: len(text) // 2].encode(), "truncated"),
        "end.json": (text[: text.rindex("]")].encode(), "truncated"),
        "scenario.json": (b'{"model": "x"}', "not a trace"),
        "empty.json": (b"", "not a trace"),
        "binary.json": (bytes(range(256)) * 20, "not UTF-8"),
        "none.json": (b'{"traceEvents": []}', "no trace events"),
        "bad.json": (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "ts": "soon"}]}', "not a trace"),
        "late.json": (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm"}]}', "an event has no 'ts'"),
        "null.json": (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "ts": null}]}', "not a trace"),
        "cpu.json": (json.dumps({"traceEvents": [step_range(0, 0, 10)]}).encode(), "no device kernels"),
        "steps.json": (json.dumps({"traceEvents": kernel(NVJET, 0, 10)}).encode(), "no ProfilerStep"),
        "ranks.json": (
            json.dumps({"traceEvents": [*steps(), *kernel(NVJET, 0, 10, device=1)]}).encode(),
            "2 devices",
        ),
        "apart.json": (
            json.dumps({"traceEvents": [step_range(0, 0, 10), *kernel(NVJET, 500, 10)]}).encode(),
            "kernel belongs to",
        ),
    }
    for name, (content, expected) in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(BadInput, match=expected) as found:
            read_kineto(path)
        assert len(str(found.value).splitlines()) == 1, name
        assert name in str(found.value)


def test_reading_costs_no_more_than_parsing(tmp_path: Path) -> None:
    """A million events take three seconds where nothing else runs; here only the ratio to `json` is held."""
    path = tmp_path / "big.json"
    with path.open("w") as out:
        out.write('{"schemaVersion": 1, "traceEvents": [')
        for n in range(5):
            out.write(json.dumps(step_range(n, n * 4e4, (n + 1) * 4e4)) + ",\n")
            for i in range(3_000):
                call, run = kernel(f"{NVJET}_{i % 50}", n * 4e4 + 10 + i * 10, 8)
                out.write(json.dumps(call) + ",\n" + json.dumps(run) + ",\n")
        out.write(json.dumps({"ph": "M", "name": "end"}) + "]}")

    def parse() -> None:
        json.loads(path.read_text())

    def seconds(run: Callable[[], object]) -> float:
        begin = time.process_time()
        run()
        return time.process_time() - begin

    assert min(seconds(lambda: read_kineto(path)) for _ in range(2)) < 3 * min(seconds(parse) for _ in range(2))
    assert read_kineto(path).classes["gemm"].busy_s == pytest.approx(0.024)
