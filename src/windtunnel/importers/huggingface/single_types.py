"""Readers of types that stand alone: JetMoE, Doge, HRM, MiMo-V2, Step-3.5, Dory, Lara Mini, CPM-Ant, XLNet, ZAYA."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.graph.mixers.attention import attention
from windtunnel.graph.mixers.feed_forward import mixture, mlp
from windtunnel.importers.huggingface.network import Blocks, Config
from windtunnel.importers.huggingface.parts import feed_forward_layers
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec


def jetmoe(c: Config) -> ModelSpec:
    """JetMoE: experts for queries and outputs of attention next to shared keys and values, experts for the MLP."""
    h, kv_heads, size = c.need("hidden_size"), c.need("num_key_value_heads"), c.number("kv_channels", 128)
    experts, per_token, inner = c.need("num_local_experts"), c.need("num_experts_per_tok"), kv_heads * size
    mixer = SubBlock(
        kind="attention",
        columns=((h, 2 * inner),),
        replicated=((h, experts),),
        vectors=2 * h,
        heads=kv_heads * per_token,
        kv_heads=kv_heads,
        d_qk=size,
        d_v=size,
        cached_elements=2 * inner,
        experts=experts,
        experts_per_token=per_token,
        expert_columns=(h, inner),
        expert_rows=(inner, h),
    )
    network = mixture(h, experts, per_token, c.need("intermediate_size"), vectors=2 * h)
    layers = [(mixer, network)] * c.need("num_hidden_layers")
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings", True))


def doge(c: Config) -> ModelSpec:
    """Doge: attention with a learned mask from values, weighted residuals, dense networks."""
    if c.flag("is_moe"):
        c.problems.add("is_moe", True, "must be false: Doge's cross-domain mixture is not modelled")
    h, heads = c.need("hidden_size"), c.need("num_attention_heads")
    kv_heads = c.number("num_key_value_heads", heads)
    size = c.number("head_dim", h // heads)
    biases = "qkvo" if c.flag("attention_bias") else ""
    window = c.number("sliding_window", 0)
    mixer = attention(h, heads, kv_heads, size, biases=biases, gate=kv_heads, window=window)
    layer = (
        mixer.plus(2 * h + kv_heads + 2 * size),
        mlp(h, c.need("intermediate_size"), bias=c.flag("mlp_bias")).plus(2 * h),
    )
    layers = [layer] * c.need("num_hidden_layers")
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"), qk_norm=True)


def hrm(c: Config) -> ModelSpec:
    """HRM: a low and a high stack of layers, run in cycles with the same weights each time."""
    h, heads, v = c.need("hidden_size"), c.need("num_attention_heads"), c.need("vocab_size")
    size = c.number("head_dim", h // heads)
    mixer = attention(h, heads, c.number("num_key_value_heads", heads), size, gate=heads * size)
    layer: Blocks = (mixer, mlp(h, c.need("intermediate_size"), bias=c.flag("mlp_bias")))
    again = tuple(block.model_copy(update={"reuses_weights": True}) for block in layer)
    each = c.need("num_layers_per_stack")
    layers: list[Blocks] = []
    for high in range(c.number("H_cycles", 2)):
        for low in range(c.number("L_cycles", 3)):
            layers += [again if high or low else layer] * each
        layers += [again if high else layer] * each
    return c.compose(layers, hidden=h, vocab=v, tied=False, inputs=v * h + h, outputs=v * h)


def mimo_v2(c: Config) -> ModelSpec:
    """MiMo-V2: windowed layers with sinks and more key/value heads than those that attend fully."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    size, value, kv_heads = c.need("head_dim"), c.need("v_head_dim"), c.need("num_key_value_heads")
    windowed = c.number("swa_num_key_value_heads", 2 * kv_heads)
    near = c.number("swa_num_attention_heads", heads)
    full = attention(h, heads, kv_heads, (size, value)).plus(h)
    local = attention(
        h,
        near,
        windowed,
        (c.number("swa_head_dim", size), c.number("swa_v_head_dim", value)),
        window=c.number("sliding_window", c.number("sliding_window_size", 128)),
    )
    networks = feed_forward_layers(c, h, depth)
    numbers = c.fields.get("hybrid_layer_pattern")  # published files: 0 attends fully, 1 in the window
    usual = None
    if isinstance(numbers, list):
        usual = ["sliding_attention" if number else "full_attention" for number in numbers]
    kinds = c.kinds("layer_types", depth, usual)
    layers = [
        (full if kind == "full_attention" else local.plus(h + near), network.plus(h))
        for kind, network in zip(kinds, networks, strict=True)
    ]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def step_3_5(c: Config) -> ModelSpec:
    """Step-3.5 and 3.7 Flash: windowed and full attention with heads of their own, gated by head; experts."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    size = c.number("head_dim", h // heads)
    kv_heads = c.number("num_key_value_heads", c.number("num_attention_groups", heads))
    other = c.fields.get("attention_other_setting")
    other = other if isinstance(other, Mapping) else {}
    near = c.number("num_sliding_attention_heads", other.get("num_attention_heads") or heads)
    gated = c.flag("use_head_wise_attn_gate", True)
    mixers = {
        kind: attention(h, own, kv_heads, size, gate=own * gated, window=window).plus(h + 2 * size)
        for kind, own, window in (
            ("full_attention", heads, 0),
            ("sliding_attention", near, c.number("sliding_window", 512)),
        )
    }
    shared = c.number("share_expert_dim", c.number("share_expert_dims", 0))
    experts = mixture(
        h,
        c.need("n_routed_experts", "num_experts", "moe_num_experts"),
        c.need("num_experts_per_tok", "moe_top_k"),
        c.need("moe_intermediate_size"),
        shared=shared,
    )
    first = c.number("first_k_dense_replace", 3)
    usual = ["dense" if i < first else "sparse" for i in range(depth)]
    networks = {"dense": mlp(h, c.need("intermediate_size")).plus(h), "sparse": experts.plus(h)}
    layers = [
        (mixers.get(kind, mixers["full_attention"]), networks["dense" if network == "dense" else "sparse"])
        for kind, network in zip(
            c.kinds("layer_types", depth, ["full_attention"] * depth),
            c.kinds("mlp_layer_types", depth, usual),
            strict=True,
        )
    ]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def dory(c: Config) -> ModelSpec:
    """Dory: gated attention and MLPs as layers of their own, those in the middle run again."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    kv_heads, size = c.number("num_key_value_heads", heads), c.number("head_dim", h // heads)
    inner = heads * size
    made = {
        kind: attention(h, heads, kv_heads, size, gate=inner, window=window).plus(2 * inner + h)
        for kind, window in (("full_attention", 0), ("sliding_attention", c.number("sliding_window", 1024)))
    }
    network = mlp(h, c.need("intermediate_size")).plus(h)
    first, last = c.need("n_input_layers"), c.need("n_output_layers")
    once = [(made.get(kind, network),) for kind in c.kinds("layer_types", depth)]
    again = [tuple(block.model_copy(update={"reuses_weights": True}) for block in blocks) for blocks in once]
    middle = again[first : depth - last] * (c.number("n_recurrent_loops", 1) - 1)
    layers = [*once[: depth - last], *middle, *once[depth - last :]]
    v = c.need("vocab_size")
    return c.compose(layers, hidden=h, vocab=v, tied=c.flag("tie_word_embeddings"), outputs=v * (h + 1))


def lara_mini(c: Config) -> ModelSpec:
    """Lara Mini: gated delta rule, windowed and full attention in turn, mixtures in every layer."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    kv_heads, size = c.number("num_key_value_heads", heads), c.number("head_dim", h // heads)
    k, v = (c.need(f"linear_num_{one}_heads") * c.need(f"linear_{one}_head_dim") for one in ("key", "value"))
    scans, taps = c.need("linear_num_value_heads"), c.number("linear_conv_kernel_dim", 4)
    delta = SubBlock(
        kind="scan",
        columns=((h, 2 * k + 2 * v + 2 * scans),),
        rows=((v, h),),
        vectors=(2 * k + v) * taps + 2 * scans + v // scans + h,
        heads=scans,
        d_qk=c.need("linear_key_head_dim"),
        d_v=v // scans,
        scan="delta",
        state_elements=v * c.need("linear_key_head_dim"),
        convolved=2 * k + v,
        taps=taps,
    )
    mixers = {
        kind: attention(h, heads, kv_heads, size, window=window).plus(h + 2 * size)
        for kind, window in (("full_attention", 0), ("sliding_attention", c.number("sliding_window", 512)))
    }
    shared = c.number("shared_expert_intermediate_size", 0)
    experts = mixture(
        h, c.need("num_experts"), c.need("num_experts_per_tok"), c.need("moe_intermediate_size"), shared=shared
    )
    layers = [(mixers.get(kind, delta), experts.plus(h)) for kind in c.kinds("layer_types", depth)]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def muse_spark(c: Config) -> ModelSpec:
    """Muse Spark: gated attention in windows and in full, experts in a latent, four norms a layer."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    kv_heads, size = c.number("num_key_value_heads", heads), c.number("head_dim", h // heads)
    experts = mixture(
        h,
        c.need("num_local_experts"),
        c.need("num_experts_per_tok"),
        c.need("moe_intermediate_size"),
        latent=c.number("moe_hidden_size", 0),
    )
    mixers = {
        kind: attention(h, heads, kv_heads, size, gate=heads * size, window=window).plus(2 * h)
        for kind, window in (("full_attention", 0), ("sliding_attention", c.number("sliding_window", 2048)))
    }
    kinds = c.kinds("layer_types", depth, ["full_attention"] * depth)
    layers = [(mixers.get(kind, mixers["full_attention"]), experts.plus(2 * h)) for kind in kinds]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def cpm_ant(c: Config) -> ModelSpec:
    """CPM-Ant: learned prompts and segments in the input table, relative positions from buckets."""
    h, heads, v = c.need("hidden_size"), c.need("num_attention_heads"), c.need("vocab_size")
    segments = c.number("segment_types", 32)
    prompts = c.number("prompt_types", 32) * c.number("prompt_length", 32)
    positions = (segments * segments + c.number("position_bias_num_buckets", 512)) * heads
    mixer = attention(h, heads, heads, c.number("dim_head", 128)).plus(h)
    layers = [(mixer, mlp(h, c.need("dim_ff")).plus(h))] * c.need("num_hidden_layers")
    inputs = (v + prompts + segments) * h + positions
    return c.compose(
        layers, hidden=h, vocab=v, tied=False, inputs=inputs, position_embedding="relative", hidden_act="gelu"
    )


def xlnet(c: Config) -> ModelSpec:
    """XLNet: attention with projected relative positions and segments."""
    h, heads, v = c.need("d_model"), c.need("n_head"), c.need("vocab_size")
    inner = heads * c.number("d_head", h // heads)
    mixer = attention(h, heads, heads, inner // heads, gate=inner).plus(5 * inner + 2 * h)
    mixer = mixer.model_copy(update={"causal": False})
    layer = (mixer, mlp(h, c.need("d_inner"), gated=False, bias=True).plus(2 * h))
    return c.compose(
        [layer] * c.need("n_layer"),
        hidden=h,
        vocab=v,
        tied=True,
        inputs=v * h + h,
        outputs=v,
        norm="layernorm",
        hidden_act="gelu",
        position_embedding="relative",
    )


def zaya(c: Config) -> ModelSpec:
    """ZAYA: convolutions over queries and keys, half of the values a token late, and a network as the router."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    kv_heads, size, v = c.need("num_key_value_heads"), c.need("head_dim"), c.need("vocab_size")
    first, second = c.number("cca_time0", 2), c.number("cca_time1", 2)
    convolved = (heads + kv_heads) * size
    window = c.number("sliding_window", 0)
    mixer = attention(h, heads, kv_heads, size, window=window)
    mixer = mixer.model_copy(
        update={
            "columns": (*mixer.columns, (size * second, convolved)),
            "vectors": convolved * (first + 2) + kv_heads + 5 * h,
            "convolved": convolved,
            "taps": first + second - 1,
        }
    )
    experts, routed = c.need("num_experts"), c.need("router_hidden_size")
    network = mixture(h, experts, c.need("num_experts_per_tok"), c.need("moe_intermediate_size"))
    router = ((h, routed), (routed, routed), (routed, routed), (routed, experts + 1))
    network = network.model_copy(update={"replicated": router, "vectors": 5 * routed + 5 * h})
    layers = [(mixer, network)] * depth
    tied = c.flag("tie_word_embeddings", True)
    return c.compose(layers, hidden=h, vocab=v, tied=tied, inputs=v * h + 2 * h)
