"""How the kernels of each engine lay experts of 4 bits out: what they pad, and what stays in memory twice."""

from __future__ import annotations

from windtunnel.serving.iteration.instance_shape import ExpertLayout
from windtunnel.specs.device import DeviceSpec

_MXFP4 = "vLLM model_executor/layers/quantization/mxfp4.py"
AS_STORED = ExpertLayout()
MARLIN = ExpertLayout(128, 256, source=f"{_MXFP4}, create_weights: Marlin wants n % 256 == 0 and k % 128 == 0")
TRITON = ExpertLayout(
    64,
    1,
    2.04,
    4.0,
    f"{_MXFP4}: triton_kernels swizzle scales in rows of 256, the checkpoint's stay; biases in fp32. Logged: 64.38 "
    "GiB of gpt-oss-120b, 13.47 of gpt-oss-20b (llm-d-incubation/llm-d-planner docs/empirical-vllm-memory-results.md)",
)
TRTLLM_GEN = ExpertLayout(256, 256, source=f"{_MXFP4}, create_weights: TensorRT-LLM's kernels on Blackwell, both 256")
ROCM = ExpertLayout(256, 256, source="vLLM quantization/utils/mxfp4_utils.py, get_padding_alignment")
TRITON_SINCE = (0, 11)
"""Release of vLLM since which its wheels bring triton_kernels; 0.10.1 took Marlin on Hopper (its start-up log)."""


def mxfp4_layout(engine: str, release: tuple[int, ...], device: DeviceSpec) -> ExpertLayout:
    """Layout of MXFP4 experts by an engine's release on a device.

    Args:
        engine: `vllm` or `sglang`.
        release: numbers of the release; the newest compares above all.
        device: of the instance.
    """
    generation = device.generation
    if generation.startswith("cdna"):
        return ROCM
    if generation == "blackwell":
        return TRTLLM_GEN
    if generation == "hopper":
        return MARLIN if engine == "vllm" and release < TRITON_SINCE else TRITON
    return MARLIN
