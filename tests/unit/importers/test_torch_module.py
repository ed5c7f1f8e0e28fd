"""Tracing torch modules: FLOPs as PyTorch counts them, and as our own graph of the same sizes has them."""

from __future__ import annotations

import sys

import pytest

from windtunnel import graph
from windtunnel.errors import BadInput
from windtunnel.graph import Batch, Kind
from windtunnel.importers.torch_module import trace_module
from windtunnel.specs.model import ModelSpec


def test_without_torch_the_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput) as caught:
        trace_module(object(), ())
    assert "windtunnel[torch]" in str(caught.value)
    assert "\n" not in str(caught.value)


torch = pytest.importorskip("torch")
nn = torch.nn
functional = torch.nn.functional

HIDDEN, HEADS, KV, INNER, BATCH, LENGTH = 256, 8, 2, 704, 2, 128


class LlamaBlock(nn.Module):
    """Grouped-query attention and a gated MLP, without biases."""

    def __init__(self) -> None:
        super().__init__()
        d = HIDDEN // HEADS
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.q, self.k, self.v = (nn.Linear(HIDDEN, n * d, bias=False) for n in (HEADS, KV, KV))
        self.o = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.gate, self.up = (nn.Linear(HIDDEN, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        y = self.norm1(x)
        q = self.q(y).view(b, s, HEADS, -1).transpose(1, 2)
        k, v = (f(y).view(b, s, KV, -1).transpose(1, 2).repeat_interleave(HEADS // KV, 1) for f in (self.k, self.v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, HIDDEN))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Gpt2Block(nn.Module):
    """Multi-head attention as two batched products, biases, plain MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.fc, self.out = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = (y.view(b, s, HEADS, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(HIDDEN, -1))
        scores = (q @ k.transpose(-1, -2) / 8.0).softmax(-1)
        x = x + self.proj((scores @ v).transpose(1, 2).reshape(b, s, HIDDEN))
        return x + self.out(functional.gelu(self.fc(self.norm2(x))))


def conv_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, groups=4),
        nn.BatchNorm2d(32),
        nn.ConvTranspose2d(32, 8, 2, stride=2),
        nn.Flatten(),
        nn.Linear(8 * 30 * 30, 10),
    ).eval()


CASES = {
    "llama": lambda: (LlamaBlock(), (torch.zeros(BATCH, LENGTH, HIDDEN),)),
    "gpt2": lambda: (Gpt2Block(), (torch.zeros(BATCH, LENGTH, HIDDEN),)),
    "encoder": lambda: (
        nn.TransformerEncoderLayer(HIDDEN, HEADS, INNER, batch_first=True).eval(),
        (torch.zeros(BATCH, LENGTH, HIDDEN),),
    ),
    "recurrent": lambda: (nn.LSTM(HIDDEN, HIDDEN, batch_first=True), (torch.zeros(BATCH, LENGTH, HIDDEN),)),
    "vector": lambda: (nn.Linear(64, 32), (torch.zeros(64),)),
    "conv": lambda: (conv_net(), (torch.zeros(4, 3, 32, 32),)),
}


@pytest.mark.parametrize("name", list(CASES))
def test_flops_equal_pytorchs_own_count(name: str) -> None:
    module, inputs = CASES[name]()
    traced = trace_module(module, inputs)
    assert traced.counted_flop > 0
    assert traced.dense_flop == traced.counted_flop
    assert traced.disagreement == 0


@pytest.mark.parametrize("name", list(CASES))
def test_every_parameter_belongs_to_one_operator(name: str) -> None:
    module, inputs = CASES[name]()
    traced = trace_module(module, inputs)
    assert traced.num_params == sum(p.numel() for p in module.parameters())
    assert sum(op.params for op in traced.operators) == traced.num_params
    assert traced.block().params == traced.num_params


def spec(**fields: object) -> ModelSpec:
    return ModelSpec.model_validate(
        {
            "name": "small",
            "hidden_size": HIDDEN,
            "num_hidden_layers": 1,
            "vocab_size": 1000,
            "num_attention_heads": HEADS,
            "tie_word_embeddings": True,
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("name", "model", "unfused"),
    [
        ("llama", spec(family="dense", num_key_value_heads=KV, intermediate_size=INNER), False),
        (
            "gpt2",
            spec(
                family="dense",
                intermediate_size=4 * HIDDEN,
                gated_mlp=False,
                norm="layernorm",
                attention_bias=True,
                mlp_bias=True,
                position_embedding="learned",
            ),
            True,
        ),
    ],
)
def test_our_graph_of_the_same_sizes_agrees(name: str, model: ModelSpec, unfused: bool) -> None:
    module, inputs = CASES[name]()
    traced = trace_module(module, inputs)
    built = graph.build(model, Batch.train(BATCH, LENGTH), unfused_attention=unfused)
    (block,) = built.blocks.values()
    ours = sum(graph.forward_flop(op) for op in block.operators)
    assert traced.forward_flop == pytest.approx(ours, rel=0.01)
    assert traced.num_params == pytest.approx(block.params, rel=0.01)


def test_operators_have_sizes_and_module_names() -> None:
    module, inputs = CASES["llama"]()
    traced = trace_module(module, inputs)
    down = next(op for op in traced.operators if op.module == "down" and op.kind == Kind.GEMM)
    assert (down.kind, down.m, down.n, down.k) == (Kind.GEMM, BATCH * LENGTH, HIDDEN, INNER)
    attention = next(op for op in traced.operators if op.kind == Kind.ATTENTION)
    assert (attention.pairs, attention.heads, attention.d_qk) == (BATCH * LENGTH**2 / 2, HEADS, HIDDEN // HEADS)
    copies = next(op for op in traced.operators if op.kind == Kind.POINTWISE and op.module == "norm1")
    assert copies.forward_bytes > 0
    assert not any(name in traced.other_calls for name in ("view", "transpose", "t"))


def test_a_model_too_large_for_memory_is_traced() -> None:
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(100_000, 100_000, bias=False), nn.Linear(100_000, 100_000, bias=False))
        inputs = torch.zeros(16, 100_000)
    traced = trace_module(module, (inputs,))
    assert traced.num_params == 2 * 10**10
    assert traced.forward_flop == 2 * 2 * 16 * 1e10


def test_tied_weights_count_once() -> None:
    module = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    module[1].weight = module[0].weight
    assert trace_module(module, (torch.zeros(2, 8),)).num_params == 64


def test_settings_of_torch_are_left_as_they_were() -> None:
    before = torch.backends.mha.get_fastpath_enabled(), torch.backends.mkldnn.enabled, torch.is_grad_enabled()
    module = nn.MultiheadAttention(64, 4).eval()
    trace_module(module, (torch.zeros(8, 1, 64),) * 3)
    assert (torch.backends.mha.get_fastpath_enabled(), torch.backends.mkldnn.enabled, torch.is_grad_enabled()) == before
    assert not module._forward_hooks and not module._forward_pre_hooks


def test_a_module_that_fails_says_why_in_one_line() -> None:
    with pytest.raises(BadInput, match="cannot run on the example inputs"):
        trace_module(nn.Linear(8, 8), (torch.zeros(2, 9),))
    with pytest.raises(BadInput, match=r"must be a torch\.nn\.Module"):
        trace_module("resnet", ())
