"""Readers of state-space models and of hybrids with attention next to or between state-space layers."""

from __future__ import annotations

from windtunnel.graph.mixers.attention import attention
from windtunnel.graph.mixers.feed_forward import mixture, mlp
from windtunnel.graph.mixers.state_space import Around, mamba1, mamba2
from windtunnel.importers.huggingface.network import Blocks, Config
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec


def mamba(c: Config) -> ModelSpec:
    """Mamba and Falcon-Mamba: one mixer a layer."""
    h = c.need("hidden_size", "d_model")
    inner = c.number("intermediate_size", c.number("expand", 2) * h)
    rank = c.number("time_step_rank", -(-h // 16))
    mixer = mamba1(
        h,
        inner,
        c.number("state_size", 16),
        rank,
        around=Around(
            c.number("conv_kernel", 4), conv_bias=c.flag("use_conv_bias", True), proj_bias=c.flag("use_bias")
        ),
    )
    layers = [(mixer.plus(h),)] * c.need("num_hidden_layers", "n_layer")
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings", True))


def mamba_2(c: Config) -> ModelSpec:
    """Mamba-2: one mixer a layer."""
    h = c.need("hidden_size")
    mixer = mamba2(
        h,
        c.need("num_heads"),
        c.need("head_dim"),
        c.number("state_size", 128),
        groups=c.number("n_groups", 8),
        around=Around(
            c.number("conv_kernel", 4), conv_bias=c.flag("use_conv_bias", True), proj_bias=c.flag("use_bias")
        ),
        chunk=c.number("chunk_size", 256),
    )
    layers = [(mixer.plus(h),)] * c.need("num_hidden_layers")
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def _mamba_2_layer(c: Config, h: int, *, norm: bool = True) -> SubBlock:
    """A Mamba-2 mixer in the spelling of Bamba, Falcon-H1 and Granite 4."""
    heads = c.need("mamba_n_heads")
    inner = c.number("mamba_d_ssm", c.number("mamba_expand", 2) * h)
    size = c.fields.get("mamba_d_head")
    return mamba2(
        h,
        heads,
        size if isinstance(size, int) else inner // heads,
        c.number("mamba_d_state", 256),
        groups=c.number("mamba_n_groups", 1),
        around=Around(
            c.number("mamba_d_conv", 4), conv_bias=c.flag("mamba_conv_bias", True), proj_bias=c.flag("mamba_proj_bias")
        ),
        norm=norm,
        chunk=c.number("mamba_chunk_size", 256),
    )


def _grouped_attention(c: Config, h: int) -> SubBlock:
    heads = c.need("num_attention_heads")
    size = c.number("head_dim", h // heads)
    biases = "qkvo" if c.flag("attention_bias") else ""
    return attention(h, heads, c.number("num_key_value_heads", heads), size, biases=biases)


def bamba(c: Config) -> ModelSpec:
    """Bamba: Mamba-2 or attention, each followed by a gated MLP."""
    h, depth = c.need("hidden_size"), c.need("num_hidden_layers")
    attended = c.fields.get("attn_layer_indices") or []
    network = mlp(h, c.need("intermediate_size"), bias=c.flag("mlp_bias")).plus(h)
    mixers = (_mamba_2_layer(c, h).plus(h), _grouped_attention(c, h).plus(h))
    layers = [(mixers[i in attended], network) for i in range(depth)]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def falcon_h1(c: Config) -> ModelSpec:
    """Falcon-H1: Mamba-2 and attention next to one another in every layer, then a gated MLP."""
    h = c.need("hidden_size")
    beside = _grouped_attention(c, h).model_copy(update={"parallel": True})
    layer = (
        _mamba_2_layer(c, h, norm=c.flag("mamba_rms_norm")).plus(h),
        beside,
        mlp(h, c.need("intermediate_size"), bias=c.flag("mlp_bias")).plus(h),
    )
    layers = [layer] * c.need("num_hidden_layers")
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


_STATE_SPACE = ("mamba", "linear_attention", "mamba2")
"""Words of `layer_types` that stand for a state-space layer."""


def granite_hybrid(c: Config) -> ModelSpec:
    """Granite 4: Mamba-2 or attention, each followed by a mixture with a shared MLP, or by the shared MLP alone."""
    h, depth = c.need("hidden_size"), c.need("num_hidden_layers")
    kinds = c.kinds("layer_types", depth, c.fields.get("layers_block_type"))
    shared, experts = c.number("shared_intermediate_size", 0), c.number("num_local_experts", 0)
    network = mlp(h, shared or c.need("intermediate_size"))
    if experts:
        network = mixture(h, experts, c.need("num_experts_per_tok"), c.need("intermediate_size"), shared=shared)
    mixers = (_grouped_attention(c, h).plus(h), _mamba_2_layer(c, h).plus(h))
    layers = [(mixers[kind in _STATE_SPACE], network.plus(h)) for kind in kinds]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def jamba(c: Config) -> ModelSpec:
    """Jamba: Mamba with normalised inputs or attention, each followed by an MLP or a mixture."""
    h, depth, width = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("intermediate_size")
    mixer = mamba1(
        h,
        c.number("mamba_expand", 2) * h,
        c.number("mamba_d_state", 16),
        c.number("mamba_dt_rank", -(-h // 16)),
        around=Around(
            c.number("mamba_d_conv", 4), conv_bias=c.flag("mamba_conv_bias", True), proj_bias=c.flag("mamba_proj_bias")
        ),
        norms=True,
    )
    mixers = (mixer.plus(h), _grouped_attention(c, h).plus(h))
    experts = c.number("num_experts", 16)
    networks = (
        mlp(h, width).plus(h),
        mixture(h, experts, c.number("num_experts_per_tok", 2), width).plus(h),
    )
    period, offset = c.number("attn_layer_period", 8), c.number("attn_layer_offset", 4)
    each, first = c.number("expert_layer_period", 2), c.number("expert_layer_offset", 1)
    layers = [(mixers[i % period == offset], networks[experts > 1 and i % each == first]) for i in range(depth)]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


_NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
"""Letters of `hybrid_override_pattern`."""


def nemotron_h(c: Config) -> ModelSpec:
    """Nemotron-H by `layers_block_type`: one sub-block a layer, squared ReLU without gates."""
    h = c.need("hidden_size")
    kinds = (
        c.fields.get("layers_block_type")
        or c.fields.get("layer_types")
        or [_NEMOTRON_LETTERS.get(letter, letter) for letter in c.fields.get("hybrid_override_pattern") or ""]
    )
    bias = c.flag("mlp_bias")
    made: dict[str, SubBlock] = {}
    for kind in dict.fromkeys(kinds):
        if kind in _STATE_SPACE:
            made[kind] = mamba2(
                h,
                c.need("mamba_num_heads"),
                c.need("mamba_head_dim"),
                c.need("ssm_state_size"),
                groups=c.number("n_groups", 8),
                around=Around(
                    c.number("conv_kernel", 4), conv_bias=c.flag("use_conv_bias", True), proj_bias=c.flag("use_bias")
                ),
                chunk=c.number("chunk_size", 128),
            )
        elif kind in ("attention", "full_attention"):
            made[kind] = _grouped_attention(c, h)
        elif kind == "moe":
            made[kind] = mixture(
                h,
                c.need("n_routed_experts"),
                c.need("num_experts_per_tok"),
                c.need("moe_intermediate_size"),
                shared=c.number("moe_shared_expert_intermediate_size", 0) * c.number("n_shared_experts", 1),
                gated=False,
                latent=c.number("moe_latent_size", 0),
            )
        elif kind == "mlp":
            made[kind] = mlp(h, c.need("intermediate_size"), gated=False, bias=bias)
        else:
            c.problems.add("layers_block_type", kind, "is no kind of layer of Nemotron-H")
            made[kind] = mlp(h, 1)
    layers: list[Blocks] = [(made[kind].plus(h),) for kind in kinds]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def zamba(c: Config) -> ModelSpec:
    """Zamba: Mamba layers, and one attention and MLP block whose weights every hybrid layer shares."""
    h, depth, width = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("intermediate_size")
    heads = c.need("num_attention_heads")
    mixer = mamba1(
        h,
        c.number("mamba_expand", 2) * h,
        c.number("mamba_d_state", 16),
        c.number("mamba_dt_rank", -(-h // 16)),
        around=Around(
            c.number("mamba_d_conv", 4), conv_bias=c.flag("mamba_conv_bias", True), proj_bias=c.flag("mamba_proj_bias")
        ),
        heads=c.number("n_mamba_heads", 2),
    ).plus(h)
    wide = c.number("attention_hidden_size", 2 * h)
    size = c.number("attention_head_dim", wide // heads)
    attended = attention(wide, heads, c.number("num_key_value_heads", heads), size).plus(wide)
    shared = (attended.model_copy(update={"rows": ((heads * size, h),)}), mlp(h, width).plus(h))
    join = SubBlock(kind="projection", columns=((h, h),))
    layers = _with_shared(c, depth, mixer, [shared], join)
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings", True))


def zamba_2(c: Config) -> ModelSpec:
    """Zamba2: Mamba-2 layers, and shared blocks in turn whose MLP each hybrid layer adapts at low rank."""
    h, depth, width = (
        c.need("hidden_size"),
        c.need("num_hidden_layers"),
        c.need("intermediate_size", "ffn_hidden_size"),
    )
    heads, groups = c.need("num_attention_heads"), c.number("mamba_ngroups", 1)
    head_dim = c.number("mamba_headdim", 0)
    scans = c.number("n_mamba_heads", c.number("mamba_expand", 2) * h // head_dim if head_dim else 8)
    mixer = mamba2(
        h,
        scans,
        c.number("mamba_expand", 2) * h // scans,
        c.number("mamba_d_state", c.number("state_size", 64)),
        groups=groups,
        around=Around(
            c.number("mamba_d_conv", 4), conv_bias=c.flag("use_conv_bias", True), proj_bias=c.flag("add_bias_linear")
        ),
        chunk=c.number("chunk_size", 256),
    ).plus(h)
    wide = c.number("attention_hidden_size", 2 * h)
    size = c.number("attention_head_dim", wide // heads)
    attended = attention(wide, heads, c.number("num_key_value_heads", heads), size).plus(wide)
    shared = (attended.model_copy(update={"rows": ((heads * size, h),)}), mlp(h, width).plus(h))
    rank = c.number("adapter_rank", c.number("lora_rank", 128))
    made = [(rank, 2 * width)]
    low = [(h, rank)]
    if c.flag("use_shared_attention_adapter", c.flag("use_shared_attention_lora")):
        made += [(rank, heads * size)] * 3
        low += [(wide, rank)] * 3
    join = SubBlock(kind="projection", columns=((h, h), *made), replicated=tuple(low))
    layers = _with_shared(c, depth, mixer, [shared] * c.number("num_mem_blocks", 1), join)
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings", True))


def _with_shared(c: Config, depth: int, mixer: SubBlock, shared: list[Blocks], join: SubBlock) -> list[Blocks]:
    """Layers of which those called hybrid run a shared block, its join to the stream and then the mixer.

    Each shared block owns its weights where it first stands.
    """
    again = [tuple(b.model_copy(update={"reuses_weights": True}) for b in blocks) for blocks in shared]
    layers: list[Blocks] = []
    met = 0
    for kind in c.kinds("layers_block_type", depth):
        if kind == "hybrid":
            blocks = shared[met] if met < len(shared) else again[met % len(shared)]
            layers.append((*blocks, join, mixer))
            met += 1
        else:
            layers.append((mixer,))
    return layers
