"""A decoder-only transformer in plain PyTorch, as predictions picture one: what `measure` really runs."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from windtunnel.specs.model import ModelSpec


class CutEmbedding(nn.Module):
    """Embedding whose vocabulary is cut over the tensor axis: other ranks' tokens are zeros, then rows are summed.

    As in Megatron-LM (arXiv 1909.08053, section 3) and PyTorch's row-wise cut of embeddings.
    """

    def __init__(self, vocabulary: int, width: int, ranks: int) -> None:
        super().__init__()
        self.own = vocabulary // ranks
        self.weight = nn.Parameter(torch.randn(self.own, width))

    def forward(self, tokens: Tensor) -> Tensor:
        """Rows of tokens, the same on every rank."""
        index = tokens - dist.get_rank() * self.own
        other = (index < 0) | (index >= self.own)
        rows = F.embedding(index.masked_fill(other, 0), self.weight).masked_fill(other[..., None], 0.0)
        return _Summed.apply(rows)


class RMSNorm(nn.Module):
    """Root-mean-square norm in fp32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalised rows."""
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


class _Copied(torch.autograd.Function):
    """Input of a column-cut layer: as it is forward, its gradients summed over the tensor axis backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


class _Summed(torch.autograd.Function):
    """Output of a row-cut layer: summed over the tensor axis forward, its gradient as it is backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding, halves swapped."""
    one, other = x.chunk(2, -1)
    return x * cos + torch.cat((-other, one), -1) * sin


class Attention(nn.Module):
    """Grouped-query attention over `torch.nn.functional.scaled_dot_product_attention`."""

    def __init__(self, model: ModelSpec, ranks: int = 1) -> None:
        super().__init__()
        self.heads = model.num_attention_heads // ranks
        self.kv_heads = (model.num_key_value_heads or model.num_attention_heads) // ranks
        self.head_dim = model.head_dim or model.hidden_size // model.num_attention_heads
        width, self.cut = model.hidden_size, ranks > 1
        self.wq = nn.Linear(width, self.heads * self.head_dim, bias=model.attention_bias)
        self.wk = nn.Linear(width, self.kv_heads * self.head_dim, bias=model.attention_bias)
        self.wv = nn.Linear(width, self.kv_heads * self.head_dim, bias=model.attention_bias)
        self.wo = nn.Linear(self.heads * self.head_dim, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: tuple[Tensor, Tensor, int] | None = None) -> Tensor:
        """Attention of one block; with `cache` (keys, values, position) one token is decoded."""
        batch, length, _ = x.shape
        x = _Copied.apply(x) if self.cut else x
        q = self.wq(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        if cache is not None:
            keys, values, at = cache
            keys[:, :, at : at + length], values[:, :, at : at + length] = k, v
            k, v = keys[:, :, : at + length], values[:, :, : at + length]
        grouped = self.kv_heads != self.heads
        out = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1, enable_gqa=grouped)
        out = self.wo(out.transpose(1, 2).reshape(batch, length, self.heads * self.head_dim))
        return _Summed.apply(out) if self.cut else out


class Mlp(nn.Module):
    """Gated or plain feed-forward part."""

    def __init__(self, model: ModelSpec, ranks: int = 1) -> None:
        super().__init__()
        self.gated, self.cut = model.gated_mlp, ranks > 1
        width = model.intermediate_size // ranks
        self.w1 = nn.Linear(model.hidden_size, width, bias=model.mlp_bias)
        if self.gated:
            self.w3 = nn.Linear(model.hidden_size, width, bias=model.mlp_bias)
        self.w2 = nn.Linear(width, model.hidden_size, bias=model.mlp_bias and ranks == 1)

    def forward(self, x: Tensor) -> Tensor:
        """SwiGLU, or GELU without a gate."""
        x = _Copied.apply(x) if self.cut else x
        out = self.w2(F.silu(self.w1(x)) * self.w3(x) if self.gated else F.gelu(self.w1(x)))
        return _Summed.apply(out) if self.cut else out


class Block(nn.Module):
    """One layer."""

    def __init__(self, model: ModelSpec, ranks: int = 1) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = RMSNorm(model.hidden_size), RMSNorm(model.hidden_size)
        self.attention, self.mlp = Attention(model, ranks), Mlp(model, ranks)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: tuple[Tensor, Tensor, int] | None = None) -> Tensor:
        """Both residual branches."""
        x = x + self.attention(self.attention_norm(x), cos, sin, cache)
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    """Embedding, blocks, head; a pipeline stage has some of them.

    Args:
        model: dimensions.
        layers: blocks that live here, by index.
        first: whether the embedding does.
        last: whether the final norm and the head do.
        ranks: of the tensor axis.
    """

    def __init__(
        self, model: ModelSpec, layers: range | None = None, *, first: bool = True, last: bool = True, ranks: int = 1
    ) -> None:
        super().__init__()
        self.first, self.last = first, last
        if first:
            shape = model.vocab_size, model.hidden_size
            self.embedding = nn.Embedding(*shape) if ranks == 1 else CutEmbedding(*shape, ranks)
        self.blocks = nn.ModuleList(Block(model, ranks) for _ in layers or range(model.num_hidden_layers))
        if last:
            self.norm = RMSNorm(model.hidden_size)
            self.cut = ranks > 1
            self.head = nn.Linear(model.hidden_size, model.vocab_size // ranks, bias=False)
            if model.tie_word_embeddings and first:
                self.head.weight = self.embedding.weight
        self.head_dim = model.head_dim or model.hidden_size // model.num_attention_heads

    def tables(self, start: int, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of positions, shape (length, head_dim)."""
        steps = torch.arange(0, self.head_dim, 2, device=like.device, dtype=torch.float32)
        positions = torch.arange(start, start + length, device=like.device, dtype=torch.float32)
        angles = torch.outer(positions, 10000.0 ** (-steps / self.head_dim))
        angles = torch.cat((angles, angles), -1)
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (first stage) or hidden states in; logits (last stage) or hidden states out."""
        hidden = self.embedding(x) if self.first else x
        cos, sin = self.tables(0, hidden.shape[1], hidden)
        for block in self.blocks:
            hidden = block(hidden, cos, sin)
        if not self.last:
            return hidden
        hidden = self.norm(hidden)
        return self.head(_Copied.apply(hidden) if self.cut else hidden)

    def decode(self, token: Tensor, caches: list[tuple[Tensor, Tensor]], at: int) -> Tensor:
        """Logits of one more token of every sequence."""
        hidden = self.embedding(token)
        cos, sin = self.tables(at, token.shape[1], hidden)
        for block, (keys, values) in zip(self.blocks, caches, strict=True):
            hidden = block(hidden, cos, sin, (keys, values, at))
        return self.head(self.norm(hidden[:, -1:]))


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in fp32."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class _ShardedLoss(torch.autograd.Function):
    """Cross-entropy of rows whose classes are cut over the tensor axis; keeps the softmax alone."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        rows, own = logits.shape
        top = logits.amax(-1)
        dist.all_reduce(top, dist.ReduceOp.MAX)
        index = targets - dist.get_rank() * own
        here = (index >= 0) & (index < own)
        at = torch.arange(rows, device=logits.device), index.clamp(0, own - 1)
        picked = (logits[at] - top) * here
        dist.all_reduce(picked)
        share = (logits - top[:, None]).exp_()
        total = share.sum(-1)
        dist.all_reduce(total)
        ctx.save_for_backward(share.div_(total[:, None]), *at, here)
        return (total.log() - picked).mean()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        share, row, column, here = ctx.saved_tensors
        share[row, column] -= here.to(share.dtype)
        return share.mul_(grad / len(row)), None


def sharded_loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy over logits whose vocabulary is cut over the tensor axis.

    Rows' maxima, sums of exponentials and targets' logits cross the axis, as in Megatron-LM (arXiv 1909.08053).
    """
    return _ShardedLoss.apply(logits.flatten(0, 1).float(), targets.flatten())
