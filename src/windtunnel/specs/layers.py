"""Layers written one by one, for networks whose layers differ in more than a few kinds.

A layer is a chain of sub-blocks (a mixer over tokens, a feed-forward network), each with its matrices, its element-wise
weights and the work between them. `graph.mixers` makes sub-blocks of the known mixers from their dimensions.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.specs.base import Spec

Matrix = tuple[int, int]
"""(inputs, outputs) of a product of tokens with weights."""


class SubBlock(Spec):
    """A mixer or a feed-forward network: norm, products, the work between them, products, residual addition."""

    kind: Literal["attention", "cross_attention", "scan", "convolution", "mlp", "mixture", "projection"]
    """What the sub-block computes."""
    columns: tuple[Matrix, ...] = ()
    """Products whose outputs the tensor axis divides: queries, keys and values, gates, the first half of an MLP."""
    rows: tuple[Matrix, ...] = ()
    """Products whose inputs the tensor axis divides: output projections, the second half of an MLP."""
    replicated: tuple[Matrix, ...] = ()
    """Products that every rank computes: low-rank bottlenecks, routers, indexers."""
    vectors: int = Field(default=0, ge=0)
    """Weights outside matrices: norms, biases, decays, taps of a short convolution."""
    # -- attention
    heads: int = Field(default=0, ge=0)
    """Query heads; of a scan, its heads."""
    kv_heads: int = Field(default=0, ge=0)
    """Key and value heads."""
    d_qk: int = Field(default=0, ge=0)
    """Elements of one query head; of a scan, of one key head or one row of its state."""
    d_v: int = Field(default=0, ge=0)
    """Elements of one value head."""
    window: int = Field(default=0, ge=0)
    """Tokens that a query attends to at most; 0: all before it."""
    causal: bool = True
    """Whether a query attends to what comes before it alone."""
    cached_elements: int = Field(default=0, ge=0)
    """Elements that the sub-block caches for each token while it decodes."""
    kv_rank: int = Field(default=0, ge=0)
    """Latent attention: elements that keys and values of all heads are made from; 0: each head has its own."""
    q_rank: int = Field(default=0, ge=0)
    """Latent attention: width of the latent that queries are made from; 0: they are made from the residual stream."""
    rope_dim: int = Field(default=0, ge=0)
    """Latent attention: elements of a key with position, which all heads share."""
    index_heads: int = Field(default=0, ge=0)
    """Heads of the indexer that scores all tokens before a query; 0: the sub-block has no indexer."""
    index_dim: int = Field(default=0, ge=0)
    """Elements of an indexer's key."""
    compression: int = Field(default=0, ge=0)
    """Next to those of the window, keys that stand for so many tokens each, over all that came before; 0: none."""
    picked: bool = False
    """Whether the tokens of `window` are picked one by one, by this layer's indexer or by that of an earlier one."""
    # -- scans and convolutions
    scan: Literal["state_space", "delta", "decayed", "elementwise"] = "state_space"
    """Algorithm of a scan: chunked state space (Mamba-2), chunked delta rule, chunked sums under a decay, or channel
    by channel without matrix products (Mamba, RG-LRU, RWKV-4)."""
    groups: int = Field(default=1, gt=0)
    """State spaces: groups of heads that share the inputs of their states."""
    state_elements: int = Field(default=0, ge=0)
    """Elements of the state, in fp32, that the sub-block carries from token to token for each sequence."""
    convolved: int = Field(default=0, ge=0)
    """Channels of the short convolution in front of a scan, or of a sub-block of kind `convolution`."""
    taps: int = Field(default=0, ge=0)
    """Tokens that the short convolution reads: `taps` − 1 of each sequence are kept, in 16 bits."""
    chunk: int = Field(default=64, gt=0)
    """Tokens of a block that a scan computes in parallel."""
    # -- mixture of experts
    experts: int = Field(default=0, ge=0)
    """Routed experts."""
    experts_per_token: int = Field(default=0, ge=0)
    """Routed experts that a token takes."""
    expert_columns: Matrix = (0, 0)
    """First product of one routed expert, its gate included."""
    expert_rows: Matrix = (0, 0)
    """Second product of one routed expert."""
    # -- weights
    gated: bool = True
    """Feed-forward networks: whether half of the first product's outputs gates the other half."""
    reuses_weights: bool = False
    """Computes with the weights of an earlier layer and has none of its own (Zamba's shared block)."""
    parallel: bool = False
    """Reads what the sub-block before it reads and adds to the same residual, without a norm of its own."""

    def plus(self, vectors: int) -> SubBlock:
        """This sub-block with more element-wise weights, such as its norms."""
        return self.model_copy(update={"vectors": self.vectors + vectors})

    @property
    def kept_inputs(self) -> int:
        """Inputs of the short convolution that are kept for each sequence."""
        return self.convolved * max(self.taps - 1, 0)

    @property
    def attends(self) -> bool:
        """Whether tokens attend to others of their sequence."""
        return self.kind == "attention"

    @property
    def expert_weights(self) -> int:
        """Weights of one routed expert."""
        return _elements(self.expert_columns) + _elements(self.expert_rows)

    def weights(self, experts: int) -> int:
        """Weights of the sub-block with `experts` of its routed experts counted."""
        if self.reuses_weights:
            return 0
        return self.passed_weights(experts)

    def passed_weights(self, experts: int) -> int:
        """Weights a token passes through, whoever owns them, with `experts` of the routed experts counted."""
        matrices = sum(_elements(m) for m in (*self.columns, *self.rows, *self.replicated))
        return matrices + self.vectors + min(experts, self.experts) * self.expert_weights


class Layer(Spec):
    """Sub-blocks of a layer, in order, and how many equal layers follow one another."""

    blocks: tuple[SubBlock, ...] = Field(min_length=1)
    """Sub-blocks of a layer, in their order."""
    repeat: int = Field(default=1, gt=0, le=10_000)
    """How many such layers follow one another."""


def _elements(matrix: Matrix) -> int:
    return matrix[0] * matrix[1]


def letters(layers: tuple[Layer, ...]) -> dict[tuple[SubBlock, ...], str]:
    """One letter for each distinct layer, in order of first appearance; none is a letter of another block kind."""
    found: dict[tuple[SubBlock, ...], str] = {}
    for layer in layers:
        if layer.blocks not in found:
            i = len(found)
            found[layer.blocks] = chr(ord("a") + i) if i < 26 else chr(0x400 + i)
    return found
