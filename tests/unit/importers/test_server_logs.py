"""Start-up logs of vLLM and SGLang: the servers that they say they started."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.server_logs import log_text

VLLM = """\
(APIServer pid=1) INFO 04-19 10:18:36 [utils.py:299]   model   Qwen/Qwen3-8B
(APIServer pid=1) INFO 04-19 10:18:36 [utils.py:233] non-default args: {'model_tag': 'Qwen/Qwen3-8B', \
'host': '0.0.0.0', 'model': 'Qwen/Qwen3-8B', 'max_model_len': 8192, 'served_model_name': ['q'], \
'enable_prefix_caching': False, \
'tensor_parallel_size': 2, 'lora_modules': [LoRAModulePath(name='a', path='b', base_model_name=None)]} and more}
(APIServer pid=1) INFO 04-19 10:18:46 [model.py:554] Resolved architecture: Qwen3ForCausalLM
"""
SGLANG = """\
[2026-02-26 05:19:58] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', context_length=None, \
kv_cache_dtype='fp8_e4m3', mem_fraction_static=0.9, chunked_prefill_size=4096, \
tp_size=4, pp_size=1, moe_dp_size=1, speculative_algorithm=None, \
speculative_attention_mode='prefill', disable_radix_cache=True, disaggregation_mode='null', hicache_ratio=2.0, \
enable_hierarchical_cache=False)
"""


def imported(text: str, **wanted: Any) -> Launch:
    format = formats.detect(text, "server.log")
    launch = formats.read(format, text, "server.log", Wanted(device="h100-sxm-80gb", **wanted))
    assert not launch.problems, launch.problems
    return launch


def test_vllm_says_what_it_was_given() -> None:
    launch = imported(VLLM)
    serving = launch.scenario()["serving"]
    assert serving["engine"] == "vllm" and launch.scenario()["model"] == "Qwen/Qwen3-8B"
    pool = serving["pools"][0]
    assert pool["plan"]["tp"] == 2 and pool["limits"]["max_model_len"] == 8192
    assert pool["kv"]["prefix_caching"] is False
    assert launch.origin["serving.pools.0.plan.tp"][1] == 2


def test_sglang_prints_defaults_too_and_what_is_off_is_no_option() -> None:
    serving = imported(SGLANG).scenario()["serving"]
    pool = serving["pools"][0]
    assert serving["engine"] == "sglang" and pool["plan"]["tp"] == 4
    assert pool["limits"]["mem_fraction_static"] == 0.9 and pool["kv"]["prefix_caching"] is False
    assert "hicache" not in log_text(SGLANG) and "speculative" not in log_text(SGLANG)


def test_the_last_start_of_a_log_counts_and_servers_of_a_split_stay() -> None:
    again = SGLANG + SGLANG.replace("tp_size=4", "tp_size=8")
    assert log_text(again).count("launch_server") == 1 and "--tp 8" in log_text(again)
    split = "".join(SGLANG.replace("mode='null'", f"mode='{part}'") for part in ("prefill", "decode"))
    pools = imported(split).scenario()["serving"]["pools"]
    assert [pool["role"] for pool in pools] == ["prefill", "decode"]


@pytest.mark.parametrize("text", ["", "non-default args: {'model': ", "server_args=ServerArgs(tp_size=8)\n", "tp: 8\n"])
def test_texts_without_a_start(text: str) -> None:
    assert log_text(text) == ""
