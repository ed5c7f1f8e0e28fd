"""Parts that several families share: feed-forward networks by layer, layers in the manner of BERT."""

from __future__ import annotations

from windtunnel.graph.mixers.attention import attention
from windtunnel.graph.mixers.feed_forward import mixture, mlp
from windtunnel.importers.huggingface.network import Blocks, Config
from windtunnel.specs.layers import SubBlock


def feed_forward_layers(c: Config, hidden: int, depth: int) -> list[SubBlock]:
    """The dense network or mixture of each layer, without its norm.

    Layers are dense as `mlp_layer_types` says, or else the first `first_k_dense_replace` of them.
    """
    experts = c.need("n_routed_experts", "num_experts")
    width = c.need("moe_intermediate_size")
    shared = c.number("n_shared_experts", c.number("num_shared_experts", 0))
    shared_width = c.number("shared_experts_intermediate_size", width)
    per_token = c.need("num_experts_per_tok", "num_experts_per_token")
    latent = c.number("routed_expert_hidden_size", 0)
    normed = latent if c.flag("latent_moe_use_norm") else 0
    routed = mixture(hidden, experts, per_token, width, shared=shared * shared_width, vectors=normed, latent=latent)
    kinds = c.fields.get("mlp_layer_types")
    flags = c.fields.get("moe_layer_freq")  # some files list a 1 for each layer with a mixture
    if not isinstance(kinds, list) and isinstance(flags, list):
        kinds = ["sparse" if flag else "dense" for flag in flags]
    first = c.number("first_k_dense_replace", 0)
    dense = [
        kinds[i] == "dense" if isinstance(kinds, list) and len(kinds) == depth else i < first for i in range(depth)
    ]
    plain = mlp(hidden, c.need("intermediate_size")) if any(dense) else routed
    return [plain if each else routed for each in dense]


def bert_layer(hidden: int, heads: int, width: int) -> Blocks:
    """Attention to all tokens and an MLP without gate, all with biases, each with a layer norm."""
    mixer = attention(hidden, heads, heads, hidden // heads, biases="qkvo").plus(2 * hidden)
    mixer = mixer.model_copy(update={"causal": False})
    return mixer, mlp(hidden, width, gated=False, bias=True).plus(2 * hidden)
