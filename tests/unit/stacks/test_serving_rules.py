"""Rules of serving engines: rows that name known facts, each with its source, and what each relation refuses."""

from __future__ import annotations

import pytest

from windtunnel.stacks.serving_rules import ENGINES, RELATIONS, broken, serving_file, serving_rules

FACTS = {
    "limits.max_num_seqs": 256,
    "limits.max_num_batched_tokens": 8192,
    "limits.chunked_prefill": True,
    "plan.tp": 8,
    "plan.ep": 1,
    "model.num_attention_heads": 64,
    "model.num_key_value_heads": 8,
    "model.mla": False,
    "model.moe": False,
    "precision.weights": "bf16",
    "device.generation": "hopper",
}


def refused(version: tuple[int, ...] = (), **changes: object) -> set[str]:
    facts = FACTS | {name.replace("__", "."): value for name, value in changes.items()}
    return {rule.field for rule in broken("vllm", version, facts)}


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_have_one_relation_and_a_source(engine: str) -> None:
    for row in serving_file(engine).get("rules", ()):
        assert sum(name in row for name in RELATIONS) == 1 and row["source"], row
        assert row.get("effect", "refuses") in ("refuses", "adjusts", "lifted")
        assert "effect" not in row or row["because"], "what is taken instead, or what lifts the rule"


def test_fewer_tokens_than_sequences_are_refused() -> None:
    assert refused() == set()
    assert refused(limits__max_num_batched_tokens=255) == {"limits.max_num_batched_tokens"}
    assert refused(limits__max_num_batched_tokens=256) == set()


def test_whole_prompts_need_the_tokens_of_the_longest() -> None:
    assert refused(limits__chunked_prefill=False, limits__max_model_len=8193) == {"limits.max_num_batched_tokens"}
    assert refused(limits__chunked_prefill=True, limits__max_model_len=8193) == set()


def test_heads_are_split_or_copied_whole() -> None:
    assert refused(plan__tp=16) == set()
    assert refused(plan__tp=12) == {"plan.tp"}
    assert refused(plan__tp=12, model__mla=True) == {"plan.tp"}


def test_rules_of_a_release_end_where_the_next_begins() -> None:
    for version, allowed in (((0, 10), 32), ((0, 11), 128), ((), 128)):
        assert refused(version, speculation__tokens=allowed) == set()
        assert refused(version, speculation__tokens=allowed + 1) == {"speculation.tokens"}


def test_what_is_not_known_breaks_nothing() -> None:
    assert not list(broken("vllm", (), {}))
    assert not serving_rules("generic")


def test_a_rule_says_what_is_allowed_where_and_who_says_so() -> None:
    facts = FACTS | {"precision.weights": "int8", "device.generation": "blackwell"}
    (rule,) = broken("vllm", (), facts)
    assert rule.words(facts).startswith("must not be int8 with device.generation blackwell (csrc/")
