"""Which class of time a device kernel counts to, by its name.

Names come from public libraries: cuBLAS (`nvjet`, `…gemm…`, `xmma`), CUTLASS, Tensile (`Cijk_`), FlashAttention, cuDNN
(`sdpa`), NCCL and RCCL (`ncclDevKernel_…`), DeepEP, PyTorch's element-wise, reduction and multi-tensor kernels,
Inductor (`triton_poi_`, `triton_red_`, `triton_per_`, `triton_tem_`, `triton_for_`), Transformer Engine, Apex, Mamba.
"""

from __future__ import annotations

import re
from functools import lru_cache

GEMM, ATTENTION, MEMORY, SCAN, OPTIMIZER, OTHER = (
    "gemm",
    "attention",
    "memory bound",
    "scan",
    "optimizer",
    "other kernels",
)
COPIES = "copies to and from the host"
COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "send-receive",
    "broadcast",
    "other collectives",
)
COMPUTE = (GEMM, ATTENTION, MEMORY, SCAN, OPTIMIZER, OTHER)

_COLLECTIVE = (
    (re.compile(r"all_?to_?all|alltoall"), "all-to-all"),
    (re.compile(r"reduce_?scatter"), "reduce-scatter"),
    (re.compile(r"all_?gather"), "all-gather"),
    (re.compile(r"all_?reduce"), "all-reduce"),
    (re.compile(r"send_?recv|^send|^recv|isend|irecv|p2p"), "send-receive"),
    (re.compile(r"broadcast"), "broadcast"),
)
_COMMUNICATION = re.compile(
    r"nccl|rccl|deep_?ep|internode|intranode|userbuffers|one_shot_|two_shot_|multimem_|nvshmem|hybrid_ep"
)
_RULES = (
    (re.compile(r"^triton_for_|multi_tensor|fused_?adam|adamw?_|foreach|_lamb|fused_sgd|muon"), OPTIMIZER),
    (re.compile(r"^triton_(poi|red|per|helion)_"), MEMORY),
    (re.compile(r"flash|fmha|sdpa|fused_attention|mha_|attn_(fwd|bwd)|flex_attention|ring_attn"), ATTENTION),
    (re.compile(r"selective_scan|chunk_(scan|state)|state_passing|mamba|ssd_|delta_rule|causal_conv|_bmm_chunk"), SCAN),
    (re.compile(r"gemm|gemv|nvjet|xmma|cijk_|s16816|s1688|s884|wgmma|matmul|cublas|splitk|triton_tem_|_mm_"), GEMM),
    (
        re.compile(
            r"elementwise|reduce_kernel|norm|softmax|rope|rotary|gelu|silu|swiglu|relu|dropout|cat_|catarray|copy|fill|"
            r"embedding|index|gather|scatter|cross_?entropy|loss|logits|cast|quantiz|transpose|amax|hadamard|permute|"
            r"topk|sort|cub::|thrust|cunn_|bias|mask|add_|mul_|memset|where|scan|distribution|random|triton_|nonzero|"
            r"reduction|pad|histogram|router|chunk|swizzle|scale"
        ),
        MEMORY,
    ),
)


def collective_kind(text: str) -> str:
    """Kind of a collective by the name of its kernel or operation."""
    lowered = text.lower()
    if "dispatch" in lowered or "combine" in lowered:
        return "all-to-all"
    for pattern, kind in _COLLECTIVE:
        if pattern.search(lowered):
            return kind
    return "other collectives"


@lru_cache(maxsize=65_536)
def kernel_class(name: str, collective: str = "") -> str:
    """Class of time of a kernel.

    Args:
        name: the kernel's name, demangled or not.
        collective: operation that the profiler recorded with it (`_allgather_base`, `all_to_allv` …).
    """
    lowered = name.lower()
    if _COMMUNICATION.search(lowered):
        by_operation = collective_kind(collective) if collective else "other collectives"
        return by_operation if by_operation != "other collectives" else collective_kind(lowered)
    for pattern, time_class in _RULES:
        if pattern.search(lowered):
            return time_class
    return OTHER


def copy_class(name: str) -> str:
    """Class of a copy or fill: inside the device it is memory traffic, else it crosses the host link."""
    lowered = name.lower()
    inside = "dtod" in lowered or "device -> device" in lowered or "memset" in lowered or "ptop" in lowered
    return MEMORY if inside else COPIES
