"""The two ends of the network: embedding, and final norm, head and loss."""

from __future__ import annotations

from windtunnel.graph.operators import Batch, Block, Kind, Operator, Style, Tensor, pointwise
from windtunnel.specs.model import ModelSpec


def embedding(model: ModelSpec, batch: Batch, style: Style) -> Block:
    """Look-up (and learned positions), or the patch projection of a vision model."""
    t, h = batch.tokens, float(model.hidden_size)
    if model.family == "vit":
        patch = float(model.num_channels * model.patch_size**2)
        tokens_per_image = (model.image_size / model.patch_size) ** 2 + 1
        op = Operator(
            name="patch_embedding",
            module="embedding",
            kind=Kind.GEMM,
            rule="full",
            m=t,
            n=h,
            k=patch,
            params=patch * h + h + (tokens_per_image + 1) * h,
            number_class="bf16",
        )
        return Block("embedding", (op,), (), op.params)
    f, b = style.embedding_bytes_per_hidden
    params = float(model.vocab_size) * h
    if model.input_parameters is not None:
        params = float(model.input_parameters)
    elif model.position_embedding == "learned":
        params += float(model.max_position_embeddings) * h
    params += model.tower_parameters
    op = pointwise("embedding", "embedding", "vocab", (f * h * t, b * h * t), (3, 3), params=params)
    return Block("embedding", (op,), (), params)


def head(model: ModelSpec, batch: Batch, style: Style, *, fused_loss: bool, padded_vocab: float) -> Block:
    """Final norm, output projection over the (padded) vocabulary, cross entropy."""
    rows, h = batch.logits_rows, float(model.hidden_size)
    if model.family == "encoder_decoder":
        rows = batch.decoder_tokens or rows
    v = padded_vocab
    if model.family == "vit":
        rows, v = batch.sequences, float(max(model.num_labels, 1))
    f, b = style.fused_loss_bytes_per_logit if fused_loss else style.loss_bytes_per_logit
    saved = style.fused_loss_saved_bytes if fused_loss else style.saved_bytes_per_logit
    k = float(model.output_size or model.hidden_size)
    own = k * v if not model.tie_word_embeddings else 0.0
    passes = style.norm_passes(model.norm)
    norm = h * (2 if model.norm == "layernorm" else 1)
    if model.output_parameters is not None:
        norm = max(model.output_parameters - own, 0.0)
    operators = (
        pointwise(
            "final_norm", "norm", "sequence", (passes[0] * h * rows * 2, passes[1] * h * rows * 2), (1, 2), params=norm
        ),
        Operator(
            name="lm_head",
            module="head",
            kind=Kind.GEMM,
            rule="vocab",
            m=rows,
            n=v,
            k=k,
            params=own,
            number_class="head",
        ),
        pointwise("loss", "loss", "vocab", (f * v * rows, b * v * rows), (6, 4)),
    )
    tensors = (
        Tensor("final_norm_input", h * rows, "sequence", producer="", consumers=("norm",)),
        Tensor("final_norm_out", h * rows, "sequence", producer="norm", consumers=("head",)),
        Tensor("logits", v * rows, "vocab", saved, producer="head", consumers=("loss",)),
    )
    return Block("head", operators, tensors, own + norm)
