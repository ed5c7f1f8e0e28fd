"""Completion of `--set`: fields level by level, then values; through the protocol that shells speak."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from windtunnel.cli.complete_settings import settings


def test_fields_one_level_at_a_time() -> None:
    assert settings("pl") == ["plan."]
    assert {"model=", "model.", "cluster.", "serving.", "training."} <= set(settings(""))
    assert {"plan.tp=", "plan.recompute.", "plan.offload."} <= set(settings("plan."))
    assert settings("plan.ze") == ["plan.zero="]
    assert "serving.pools.0." in settings("serving.p")
    assert "serving.pools.0.limits.max_num_seqs=" in settings("serving.pools.0.limits.")
    assert "cluster.scale_out.nic_bytes_per_s=" in settings("cluster.scale_out.")
    assert settings("nothing.here") == []


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("plan.sp=", "plan.sp=true"),
        ("training.framework=megatron_c", "training.framework=megatron_core"),
        ("plan.schedule=zb", "plan.schedule=zb_h1"),
        ("plan.tp=", "plan.tp=auto"),
        ("plan.recompute=", "plan.recompute=full"),
        ("cluster.device=h100", "cluster.device=h100-sxm-80gb"),
        ("model=meta-llama/", "model=meta-llama/Llama-3.1-70B"),
        ("serving.engine=", "serving.engine=vllm"),
        ("serving.precision.kv_cache=", "serving.precision.kv_cache=fp8"),
        ("serving.router=", "serving.router=round_robin"),
        ("serving.pools.0.queue=", "serving.pools.0.queue=fcfs"),
        ("serving.pools.1.policy=", "serving.pools.1.policy=vllm_v1"),
    ],
)
def test_values(typed: str, offered: str) -> None:
    found = settings(typed)
    assert offered in found and all(one.startswith(typed) for one in found)


def _completed(**shell: str) -> list[str]:
    program = "from windtunnel.cli.main import main; main()"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env={**os.environ, **shell}, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.split("\n")


def test_bash_splits_words_at_the_equals_sign() -> None:
    words = "windtunnel\ntrain\ns.yaml\n--set\nplan.zero\n=\n1\n--set\ntraining.framework\n=\nmegatron_c"
    found = _completed(_WINDTUNNEL_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD="10")
    assert [one for one in found if one] == ["megatron_core"]
    found = _completed(
        _WINDTUNNEL_COMPLETE="complete_bash", COMP_WORDS="windtunnel\ntrain\ns.yaml\n--set\nplan.ze", COMP_CWORD="4"
    )
    assert [one for one in found if one] == ["plan.zero="]


def test_zsh_keeps_them_whole() -> None:
    line = "windtunnel serve s.yaml --set serving.engine=sg"
    found = _completed(_WINDTUNNEL_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line)
    assert any("serving.engine=sglang" in one for one in found)
