"""Readers of latent and sparse attention whose layers differ: LongCat-Flash, dots 3, HunYuan 4, DeepSeek-V4."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.graph.mixers.attention import latent_attention
from windtunnel.graph.mixers.feed_forward import mixture, mlp
from windtunnel.graph.mixers.linear_attention import delta_attention
from windtunnel.importers.huggingface.network import Config
from windtunnel.importers.huggingface.parts import feed_forward_layers
from windtunnel.specs.layers import SubBlock
from windtunnel.specs.model import ModelSpec


def _dims(c: Config) -> tuple[int, int, int]:
    return c.need("qk_nope_head_dim"), c.need("qk_rope_head_dim"), c.need("v_head_dim")


def longcat_flash(c: Config) -> ModelSpec:
    """LongCat-Flash: two rounds of attention and MLP a layer, and one mixture whose zero experts have no weights.

    Source: LongCat-Flash technical report (arXiv 2509.01322), section 2.1.
    """
    h, depth, heads = c.need("hidden_size"), c.need("num_layers", "num_hidden_layers"), c.need("num_attention_heads")
    zero = c.number("zero_expert_num", 0)
    mixer = latent_attention(h, heads, c.need("kv_lora_rank"), _dims(c), q_rank=c.number("q_lora_rank", 0)).plus(h)
    dense = mlp(h, c.need("ffn_hidden_size")).plus(h)
    experts = mixture(h, c.need("n_routed_experts"), c.need("moe_topk"), c.need("expert_ffn_hidden_size"))
    experts = experts.model_copy(update={"replicated": (*experts.replicated, (h, zero))} if zero else {})
    layers = [(mixer, experts, dense, mixer, dense)] * depth
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def _indexer(c: Config) -> tuple[int, int, int]:
    return c.need("index_n_heads"), c.need("index_head_dim"), c.need("index_topk")


def dots3(c: Config) -> ModelSpec:
    """Dots 3: latent attention with an indexer, or in a window, each with dimensions of its own and gated by head."""
    c = c.part("text_config") if "text_config" in c.fields else c
    h, depth = c.need("hidden_size"), c.need("num_hidden_layers")
    own = c.fields.get("per_layer_config")
    own = own if isinstance(own, Mapping) else {}
    mixers = []
    for i, kind in enumerate(c.kinds("layer_types", depth)):
        changed = own.get(f"{i:02d}", own.get(str(i)))
        at = Config({**c.fields, **changed}, c.name) if isinstance(changed, Mapping) else c
        at.problems = c.problems
        heads, rope = at.need("num_attention_heads"), at.need("qk_rope_head_dim")
        indexed = kind == "indexed_attention"
        mixer = latent_attention(
            h,
            heads,
            at.need("kv_lora_rank"),
            _dims(at),
            q_rank=at.number("q_lora_rank", 0),
            gate=heads,
            indexer=_indexer(at) if indexed else None,
            window=at.number("sliding_window", 0),
        )
        mixers.append(mixer.plus(h + rope))
    layers = list(zip(mixers, (n.plus(h) for n in feed_forward_layers(c, h, depth)), strict=True))
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def mistral_large_4(c: Config) -> ModelSpec:
    """Mistral Large 4: latent attention without a latent of queries, with an indexer that layers may share."""
    h, depth = c.need("hidden_size"), c.need("num_hidden_layers")
    heads, dims, rank = c.need("num_attention_heads"), _dims(c), c.need("kv_lora_rank")
    made = {}
    for kind in ("full", "shared"):
        indexer = _indexer(c) if kind == "full" else None
        mixer = latent_attention(h, heads, rank, dims, indexer=indexer, window=c.need("index_topk"))
        made[kind] = mixer.model_copy(update={"picked": True}).plus(h)
    kinds = c.kinds("indexer_types", depth, ["full"] * depth)
    networks = feed_forward_layers(c, h, depth)
    layers = [(made["shared" if k == "shared" else "full"], n.plus(h)) for k, n in zip(kinds, networks, strict=True)]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def _mixed(block: SubBlock, hidden: int, streams: int, made: int) -> SubBlock:
    """A sub-block with the mixing of residual streams in front of it (hyper-connections, arXiv 2409.19606).

    Args:
        block: the sub-block.
        hidden: width of a stream.
        streams: residual streams.
        made: mixing coefficients that a token's streams make.
    """
    scales = made // streams if made % streams == 0 else 1
    scales = min(scales, 3)
    mixing = (*block.replicated, (streams * hidden, made))
    return block.model_copy(update={"replicated": mixing, "vectors": block.vectors + made + scales})


def glm_5_next(c: Config) -> ModelSpec:
    """GLM-5.3: delta attention, latent attention whose indexer scores pooled keys, several residual streams."""
    h, depth, v = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("vocab_size")
    heads, streams, size = c.need("num_attention_heads"), c.number("hc_mult", 4), c.number("linear_head_dim", 128)
    mixing = (2 + streams) * streams
    taps = c.number("linear_conv_kernel_dim", 4)
    delta = delta_attention(h, c.need("linear_num_heads"), size, conv=taps, decay_rank=size, gate_rank=size)
    nope, value, key = c.need("qk_nope_head_dim"), c.need("v_head_dim"), c.need("index_head_dim")
    made = {}
    for kind in ("full", "shared"):
        mixer = latent_attention(
            h,
            heads,
            c.need("kv_lora_rank"),
            (nope, c.number("qk_rope_head_dim", 0), value),
            q_rank=c.number("q_lora_rank", 0),
            indexer=_indexer(c) if kind == "full" else None,
            window=c.need("index_topk"),
        )
        pooled = {"replicated": (*mixer.replicated, (h, key))} if kind == "full" else {}
        made[kind] = mixer.model_copy(update={"picked": True, **pooled}).plus(
            h + c.number("index_kpool", 16) * key * (kind == "full")
        )
    mixers = [
        delta.plus(h) if kind == "linear_attention" else made["shared" if index == "shared" else "full"]
        for kind, index in zip(
            c.kinds("layer_types", depth), c.kinds("indexer_types", depth, ["full"] * depth), strict=True
        )
    ]
    networks = feed_forward_layers(c, h, depth)
    layers = [
        (_mixed(mixer, h, streams, mixing), _mixed(network.plus(h), h, streams, mixing))
        for mixer, network in zip(mixers, networks, strict=True)
    ]
    return c.compose(layers, hidden=h, vocab=v, tied=c.flag("tie_word_embeddings"))


def _mixed_ends(hidden: int, vocab: int, streams: int, *, tied: bool) -> int:
    """Weights behind the layers: streams joined to one, norm, head."""
    return streams * streams * hidden + streams + 1 + hidden + (0 if tied else vocab * hidden)


def axk_2(c: Config) -> ModelSpec:
    """A.X K2: sparse latent attention whose queries and gate read a latent and its norm; norms gated at low rank."""
    h, depth, heads = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("num_attention_heads")
    rank, dims = c.need("q_lora_rank"), _dims(c)
    mixer = latent_attention(
        h, heads, c.need("kv_lora_rank"), dims, q_rank=rank, gate=heads * dims[2], indexer=_indexer(c)
    )
    queries, values, _ = mixer.columns
    gated_norm = ((h, c.number("gated_norm_rank", 16)), (c.number("gated_norm_rank", 16), h))
    mixer = mixer.model_copy(
        update={
            "columns": ((2 * rank, queries[1]), values, (2 * rank, heads * dims[2])),
            "replicated": (*mixer.replicated, *gated_norm),
        }
    )
    networks = [
        n.model_copy(update={"replicated": (*n.replicated, *gated_norm)}) for n in feed_forward_layers(c, h, depth)
    ]
    layers = [(mixer.plus(h), n.plus(h)) for n in networks]
    return c.compose(layers, hidden=h, vocab=c.need("vocab_size"), tied=c.flag("tie_word_embeddings"))


def hunyuan_4(c: Config) -> ModelSpec:
    """HunYuan 4: gated latent attention with sinks, an indexer in some layers that the next ones share."""
    h, depth, v = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("vocab_size")
    heads, streams = c.need("num_attention_heads"), c.number("hc_mult", 4)
    dims = _dims(c)
    kinds = c.kinds("indexer_types", depth)
    made = {}
    for kind in ("full", "shared"):
        mixer = latent_attention(
            h,
            heads,
            c.need("kv_lora_rank"),
            dims,
            q_rank=c.number("q_lora_rank", 0),
            gate=heads * dims[2],
            indexer=_indexer(c) if kind == "full" else None,
            window=c.need("index_topk"),
        )
        mixer = mixer.model_copy(update={"picked": True})  # by this layer's indexer or by an earlier one's
        made[kind] = _mixed(mixer.plus(h + heads), h, streams, 2 * streams)
    networks = [_mixed(n.plus(h), h, streams, 2 * streams) for n in feed_forward_layers(c, h, depth)]
    layers = [(made["full" if k == "full" else "shared"], n) for k, n in zip(kinds, networks, strict=True)]
    tied = c.flag("tie_word_embeddings")
    outputs = _mixed_ends(h, v, streams, tied=tied)
    return c.compose(layers, hidden=h, vocab=v, tied=tied, outputs=outputs)


def _compressed_attention(c: Config, h: int) -> dict[str, SubBlock]:
    """Attention of each kind of layer of DeepSeek-V4: in a window, next to tokens compressed heavily or sparsely."""
    heads, d = c.need("num_attention_heads"), c.need("head_dim")
    q_rank, groups, o_rank = c.need("q_lora_rank"), c.need("o_groups"), c.need("o_lora_rank")
    index_heads, index_dim = c.need("index_n_heads"), c.need("index_head_dim")
    rates = c.fields.get("compress_rates")
    rates = rates if isinstance(rates, Mapping) else {}
    heavy = int(rates.get("heavily_compressed_attention", 128))
    sparse = int(rates.get("compressed_sparse_attention", 4))
    base = SubBlock(
        kind="attention",
        columns=((q_rank, heads * d), (heads * d // groups, groups * o_rank)),
        rows=((groups * o_rank, h),),
        replicated=((h, q_rank), (h, d)),
        vectors=h + q_rank + d + heads,
        heads=heads,
        kv_heads=1,
        d_qk=d,
        d_v=d,
        window=c.number("sliding_window", 128),
        cached_elements=d,
    )
    index = ((h, 4 * index_dim), (q_rank, index_heads * index_dim), (h, index_heads))
    window = c.number("sliding_window", 128) + c.number("index_topk", 512)
    return {
        "sliding_attention": base,
        "heavily_compressed_attention": base.model_copy(
            update={
                "replicated": (*base.replicated, (h, 2 * d)),
                "vectors": base.vectors + heavy * d + d,
                "compression": heavy,
            }
        ),
        "compressed_sparse_attention": base.model_copy(
            update={
                "replicated": (*base.replicated, (h, 4 * d), *index),
                "vectors": base.vectors + 2 * sparse * d + d + 2 * sparse * index_dim + index_dim,
                "window": window,
                "compression": sparse,
                "index_heads": index_heads,
                "index_dim": index_dim,
            }
        ),
    }


_COMPRESSED = {
    0: "sliding_attention",
    1: "sliding_attention",
    4: "compressed_sparse_attention",
    128: "heavily_compressed_attention",
}
"""Entry of `compress_ratios` → kind of layer."""


def deepseek_v4(c: Config) -> ModelSpec:
    """DeepSeek-V4: one shared key/value head, older tokens compressed sparsely or heavily, several residual streams."""
    h, depth, v = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("vocab_size")
    streams, made = c.number("hc_mult", 4), _compressed_attention(c, h)
    ratios = c.fields.get("compress_ratios")  # published files: tokens that one compressed key stands for; 0: none
    usual = None
    if isinstance(ratios, list):  # one more where the layer that predicts a further token is listed too
        usual = [_COMPRESSED.get(ratio, str(ratio)) for ratio in ratios[:depth]]
    kinds = c.kinds("layer_types", depth, usual)
    for kind in {*kinds} - {*made, ""}:
        c.problems.add("layer_types", kind, "is no kind of layer of DeepSeek-V4")
    mixing = (2 + streams) * streams
    networks = [_mixed(n.plus(h), h, streams, mixing) for n in feed_forward_layers(c, h, depth)]
    layers = [
        (_mixed(made.get(k, made["sliding_attention"]), h, streams, mixing), n)
        for k, n in zip(kinds, networks, strict=True)
    ]
    tied = c.flag("tie_word_embeddings")
    outputs = _mixed_ends(h, v, streams, tied=tied)
    return c.compose(layers, hidden=h, vocab=v, tied=tied, outputs=outputs)
