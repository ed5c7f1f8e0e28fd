"""Colours of classes of time and of kinds of tensors, the same in every report."""

from __future__ import annotations

_COLOURS: tuple[tuple[tuple[str, ...], str], ...] = (
    # the first rule with a word in the name wins; communication stands before computation ("tp all-gather (forward)")
    (("bubble", "idle", "wait", "barrier"), "#cfd4da"),
    (("slowed", "contention"), "#b39ddb"),
    (("host", "launch", "dispatch"), "#8d6e63"),
    (("offload", "pcie", "copy"), "#a1887f"),
    (("p2p", "exposed pp", "pp ", "pipeline", "send", "recv"), "#e0a100"),
    (("moe all", "exposed ep", "ep ", "all to all", "alltoall", "a2a", "expert comm"), "#d81b7a"),
    (("exposed cp", "cp ", "ring exchange"), "#8e44ad"),
    (("dp gather", "dp all gather", "param gather", "parameter gather"), "#d9796b"),
    (("exposed dp", "dp ", "fsdp", "zero", "grad reduce", "reduce scatter grad"), "#c0392b"),
    (("exposed tp", "tp ", "sp "), "#e8742c"),
    (("optimizer", "adam", "update"), "#5d4a8a"),
    (("recompute", "recomputation"), "#3aa6a0"),
    (("weight grad", "wgrad", "weight_grad"), "#5aa469"),
    (("backward", "dgrad"), "#2e8b57"),
    (("loss", "logit", "embedding"), "#0097a7"),
    (("attention", "attn"), "#1565c0"),
    (("scan", "mamba", "linear attention"), "#26a69a"),
    (("forward", "gemm", "matmul", "matrix"), "#2f6fb2"),
    (("element", "norm", "memory bound"), "#7fb3d5"),
)
_MEMORY_COLOURS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("optimizer", "adam", "master", "moment"), "#5d4a8a"),
    (("gathered",), "#d9796b"),
    (("grad",), "#2e8b57"),
    (("weight", "param"), "#2f6fb2"),
    (("logit", "loss", "vocab"), "#0097a7"),
    (("buffer", "comm", "nccl", "bucket"), "#c0392b"),
    (("workspace", "transient", "temporary"), "#a1887f"),
    (("expert", "dispatch", "moe"), "#d81b7a"),
    (("attention", "attn", "qkv"), "#e0a100"),
    (("activation", "input", "saved", "stash"), "#e8742c"),
)
_SPARE = ("#607d8b", "#9e9d24", "#795548", "#00838f", "#6d4c41", "#ad1457", "#455a64", "#827717")


def colour(name: str) -> str:
    """Colour of a class of time, found by the words in its name; each unknown name has a fixed spare colour."""
    return _match(name, _COLOURS)


def memory_colour(name: str) -> str:
    """Colour of a kind of tensor, found by the words in its name."""
    return _match(name, _MEMORY_COLOURS)


def _match(name: str, rules: tuple[tuple[tuple[str, ...], str], ...]) -> str:
    text = name.lower().replace("_", " ").replace("-", " ") + " "
    for words, value in rules:
        if any(word in text for word in words):
            return value
    return _SPARE[sum(text.encode()) % len(_SPARE)]
