"""How each engine moves a prompt's KV cache to the decode instance, where the scenario does not say."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KvTransferDefaults:
    """An engine's own way to move KV caches; `sources` names where each was read, by field of `TransferSpec`."""

    mode: str
    reserve_first: bool
    first_token: str
    proxied: bool
    """Whether the decode server gets a request of its own once the prompt is computed (HTTP, tokeniser)."""
    to_host: bool = False
    """Whether a preempted answer is copied to host memory, where nothing else bounds it."""
    sources: dict[str, str] = field(default_factory=dict)


_VLLM = "vLLM kv_transfer/kv_connector/v1/nixl_connector.py"
_SGLANG = "SGLang srt/disaggregation"
_TRTLLM = "TensorRT-LLM serve/openai_disagg_server.py"
KV_TRANSFER_DEFAULTS = {
    "vllm": KvTransferDefaults(
        "whole",
        False,
        "decode",
        True,
        False,
        {
            "mode": f"{_VLLM}: the decode instance reads blocks after the prompt's request has finished",
            "reserve_first": f"{_VLLM}: blocks are allocated when the request comes with its remote blocks",
            "first_token": "vLLM v1 core/sched/scheduler.py: of a prompt found whole the last token is computed again",
            "control_s": "tests/v1/kv_connector toy_proxy_server.py: a second request once the first has ended; the "
            "engine's time for a request",
        },
    ),
    "sglang": KvTransferDefaults(
        "chunks",
        True,
        "transfer",
        False,
        True,
        {
            "kv.swap_space_bytes": f"{_SGLANG}/decode.py: retracted requests keep their cache in host memory",
            "mode": f"{_SGLANG}/prefill.py: send_kv_chunk after each chunk of the prompt",
            "reserve_first": f"{_SGLANG}/decode.py: DecodePreallocQueue; prompts wait for it in PrefillBootstrapQueue",
            "first_token": f"{_SGLANG}/decode.py: the first token comes with the cache and is streamed from there",
            "control_s": f"{_SGLANG}: both servers get the request at once",
        },
    ),
    "trtllm": KvTransferDefaults(
        "whole",
        False,
        "transfer",
        True,
        False,
        {
            "mode": "TensorRT-LLM batch_manager/cacheTransceiver.cpp: responds when the context request is complete",
            "reserve_first": f"{_TRTLLM}: the generation server hears of a request when its context is done",
            "first_token": f"{_TRTLLM}: chunks come from the generation server, the context's first token among them",
            "control_s": f"{_TRTLLM}: a second request once the first has ended; the engine's time for a request",
        },
    ),
    "lmdeploy": KvTransferDefaults(
        "whole",
        False,
        "transfer",
        True,
        False,
        {
            "mode": "LMDeploy pytorch/disagg: migration after the prompt",
            "reserve_first": "LMDeploy serve/proxy: the decode server hears of a request after its prefill",
            "first_token": "LMDeploy serve/proxy: answers are streamed by the decode server",
            "control_s": "LMDeploy serve/proxy: a second request; the engine's time for a request",
        },
    ),
    "generic": KvTransferDefaults("whole", False, "prefill", False),
}


def kv_transfer_defaults(engine: str) -> KvTransferDefaults:
    """Those of an engine; an engine of another distribution moves caches as a generic one does."""
    return KV_TRANSFER_DEFAULTS.get(engine, KV_TRANSFER_DEFAULTS["generic"])
