"""Signatures of a block: hand-written tensor parallelism comes out of the rules, of propagation and of the cheapest."""

from __future__ import annotations

import pytest

from windtunnel import catalog, graph
from windtunnel.graph import Batch
from windtunnel.parallel import sharding as s


def ring(ranks: int) -> s.Exchange:
    """Seconds at 100 GB/s: a ring moves (n − 1) / n of a tensor, twice for an all-reduce."""
    factor = {"all_reduce": 2.0, "all_to_all": 1.0 / ranks}
    return lambda operation, nbytes: factor.get(operation, 1.0) * nbytes * (ranks - 1) / ranks / 1e11


def block(name: str, tokens: int) -> list[s.Node]:
    return s.chain_of(graph.build(catalog.model(name), Batch.train(1, tokens)).blocks["D"])


FAMILIES = ["eleutherai/gpt-j-6b", "meta-llama/Llama-3.1-8B", "facebook/opt-66b", "gpt3-13b"]


@pytest.mark.parametrize("name", FAMILIES)
def test_two_rules_give_the_hand_written_pairs(name: str) -> None:
    rules = s.two_rules(block(name, 2048))
    wanted = {"qkv": s.COLUMN, "proj": s.ROW, "fc1": s.COLUMN, "fc2": s.ROW}
    assert {k: v for k, v in rules.items() if k in wanted} == wanted


def test_queries_keys_and_values_are_split_alike_however_many_products_make_them() -> None:
    decoder = graph.build(catalog.model("google/t5-v1_1-xl"), Batch.train(1, 128)).blocks["C"]
    rules = s.two_rules(s.chain_of(decoder))
    assert rules["cross_q"] is rules["cross_kv"] is s.COLUMN and rules["cross_proj"] is rules["proj"] is s.ROW
    assert rules["fc1"] is s.COLUMN and rules["fc2"] is s.ROW


def test_rules_need_one_all_reduce_a_pair() -> None:
    chain = block("gpt3-13b", 2048)
    steps = s.cheapest(s.propagate(chain, s.two_rules(chain)), ring(8), s.B)
    assert [x.exchange for x in steps if x.exchange] == ["all_reduce", "all_reduce"]
    assert [x.node.name for x in steps if x.exchange] == ["mlp_norm", "end of block"]


def test_annotations_of_two_weights_spread_over_the_block() -> None:
    """Annotated are the first product of each pair; attention, activation and the second products follow."""
    chain = block("gpt3-13b", 2048)
    nodes = {n.name: n for n in s.propagate(chain, {"qkv": s.COLUMN, "fc1": s.COLUMN})}
    assert nodes["core_attn"].options == (s.HEADS,)
    assert nodes["mlp_act"].options == (s.HEADS,)
    assert nodes["proj"].options == nodes["fc2"].options == (s.ROW,)


def test_few_tokens_split_weights_and_many_split_tokens() -> None:
    """Activations grow with tokens, weight gradients do not: where they cross the cheapest signature changes."""
    kinds = {}
    for tokens in (256, 65536):
        steps = s.cheapest(block("gpt3-13b", tokens), ring(8), s.ROWS)
        kinds[tokens] = {x.signature.name for x in steps if x.node.weight_bytes}
    assert kinds[65536] == {"data"}
    assert "data" not in kinds[256]


def test_the_cheapest_is_no_dearer_than_any_uniform_choice() -> None:
    chain = block("gpt3-13b", 8192)
    free = sum(x.seconds for x in s.cheapest(chain, ring(8), s.ROWS))
    rules = sum(x.seconds for x in s.cheapest(s.propagate(chain, s.two_rules(chain)), ring(8), s.ROWS))
    data = sum(
        x.seconds
        for x in s.cheapest([s.Node(n.name, (s.DATA,), n.out_bytes, n.weight_bytes) for n in chain], ring(8), s.ROWS)
    )
    assert free <= min(rules, data) + 1e-12


def test_nothing_becomes_a_partial_sum() -> None:
    with pytest.raises(ValueError, match="only ever a result"):
        s.boxing(s.B, s.PARTIAL)
    assert s.boxing(s.ROWS, s.COLUMNS) == "all_to_all" and s.boxing(s.B, s.COLUMNS) == ""
