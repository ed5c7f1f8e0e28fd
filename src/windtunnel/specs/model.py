"""A model architecture, in the field names of Hugging Face `config.json` files."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Inconsistent, Spec
from windtunnel.specs.layers import Layer, SubBlock, letters

Family = Literal[
    "dense", "moe", "mla_moe", "hybrid", "linear_attention", "encoder", "encoder_decoder", "vit", "composed"
]


class Provenance(Spec):
    """Where a figure was read, and when."""

    source: str
    """File, page or paper."""
    as_of: str = ""
    """Year and month."""


class ModelSpec(Spec):
    """One decoder, encoder or encoder-decoder network. Counts are unsharded; dimensions in elements.

    `layer_kinds()` spells the depth out as a string of block kinds; the graph builds one block per kind.
    """

    name: str
    """Name of the checkpoint or of the model, as results show it."""
    family: Family = "dense"
    """Which kind of layers the fields describe; `composed`: layers written one by one under `layers`."""
    # -- trunk
    hidden_size: int = Field(gt=0)
    """Width of the residual stream, in elements."""
    num_hidden_layers: int = Field(gt=0, le=10_000)
    """Number of layers; of an encoder-decoder, of both together."""
    vocab_size: int = Field(gt=0)
    """Rows of the embedding table, as the checkpoint pads them."""
    num_attention_heads: int = Field(default=1, gt=0)
    """Query heads of a layer."""
    num_key_value_heads: int | None = Field(default=None, gt=0)
    """Absent means one key/value head per query head (MHA)."""
    head_dim: int | None = Field(default=None, gt=0)
    """Absent means hidden_size / num_attention_heads."""
    intermediate_size: int = Field(default=0, ge=0)
    """Width of the feed-forward network, in elements; 0: the layers have none."""
    gated_mlp: bool = True
    """Whether the feed-forward network has a gate beside its first product (SwiGLU, GeGLU): three matrices, not two."""
    hidden_act: str = "silu"
    """Activation of the feed-forward network, by its Hugging Face name."""
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    """Kind of normalization in front of attention and feed-forward network."""
    post_norm: bool = False
    """Extra norms after attention and MLP (Gemma 2/3)."""
    qk_norm: bool = False
    """Whether queries and keys are normalized before attention (Qwen3, Gemma 3)."""
    attention_bias: bool = False
    """Whether the projections of attention have a bias."""
    mlp_bias: bool = False
    """Whether the products of the feed-forward network have a bias."""
    tie_word_embeddings: bool = False
    """Whether the output head is the embedding table."""
    position_embedding: Literal["rope", "learned", "alibi", "relative", "none"] = "rope"
    """How positions enter: rotated queries and keys, a learned table, a bias of attention, or not at all."""
    max_position_embeddings: int = Field(default=0, ge=0)
    """Tokens of the longest sequence that the model was made for; 0: not known."""
    parallel_block: bool = False
    """Attention and MLP read the same norm and are summed (GPT-J, Falcon, Command R)."""
    sliding_window: int | None = Field(default=None, gt=0)
    """Tokens that a layer with a window attends to; absent: all before."""
    sliding_window_pattern: int | None = Field(default=None, gt=0)
    """Every n-th layer attends fully, the others inside the window; absent means that all layers use the window."""
    attention_chunk_size: int | None = Field(default=None, gt=1)
    """In place of a window: a token attends to those before it in its own chunk of so many (Llama 4)."""
    attention_sinks: bool = False
    """Whether each head has a learned logit beside the keys (gpt-oss)."""
    global_head_dim: int | None = Field(default=None, gt=0)
    """Head size of the layers that attend fully next to windowed ones; absent means `head_dim` (Gemma 4)."""
    num_global_key_value_heads: int | None = Field(default=None, gt=0)
    """Key/value heads of those layers; absent means `num_key_value_heads`."""
    attention_k_eq_v: bool = False
    """Those layers project keys once and use them as values."""
    attention_output_gate: bool = False
    """A projection as wide as the queries gates the output of attention, element by element (Qwen3.5, AFMoE)."""
    # -- mixture of experts
    num_experts: int = Field(default=0, ge=0)
    """Routed experts of a layer with a mixture; 0: no mixture."""
    num_experts_per_tok: int = Field(default=0, ge=0)
    """Routed experts that a token takes."""
    moe_intermediate_size: int = Field(default=0, ge=0)
    """Width of one routed expert, in elements."""
    n_shared_experts: int = Field(default=0, ge=0)
    """Experts that every token takes."""
    shared_expert_intermediate_size: int = Field(default=0, ge=0)
    """Total width of the shared expert(s)."""
    first_k_dense_replace: int = Field(default=0, ge=0)
    """First layers that have a dense feed-forward network in place of a mixture."""
    moe_layer_freq: int = Field(default=1, gt=0)
    """A mixture in every n-th layer, the last of each n."""
    capacity_factor: float | None = Field(default=None, gt=0)
    """Rows that an expert takes, over the mean of all experts; absent means dropless."""
    moe_pad_expert_input_to_capacity: bool = True
    """Experts with fewer rows than their capacity are filled up to it, as GShard's and DeepSpeed's fixed shapes and
    NVIDIA's recipes with token drop do; `false`: rows beyond the capacity are dropped and none are added, which is
    Megatron's default. Read with `capacity_factor` alone."""
    # -- multi-head latent attention
    q_lora_rank: int | None = Field(default=None, gt=0)
    """Multi-head latent attention: width that queries are compressed to; absent: they are not."""
    kv_lora_rank: int | None = Field(default=None, gt=0)
    """Multi-head latent attention: width that keys and values are compressed to, which the cache holds."""
    qk_nope_head_dim: int = Field(default=0, ge=0)
    """Multi-head latent attention: elements of a query or key head that are not rotated."""
    qk_rope_head_dim: int = Field(default=0, ge=0)
    """Multi-head latent attention: elements of a query or key head that are rotated."""
    v_head_dim: int = Field(default=0, ge=0)
    """Multi-head latent attention: elements of a value head."""
    index_topk: int = Field(default=0, ge=0)
    """Sparse attention: tokens that a query attends to, picked by an indexer; 0: all (DeepSeek-V3.2, GLM-5)."""
    index_n_heads: int = Field(default=0, ge=0)
    """Sparse attention: heads of the indexer."""
    index_head_dim: int = Field(default=0, ge=0)
    """Sparse attention: elements of a head of the indexer."""
    num_nextn_predict_layers: int = Field(default=0, ge=0)
    """Layers for multi-token prediction behind the others."""
    # -- state-space and linear attention
    hybrid_override_pattern: str | None = None
    """One letter a layer: `M` Mamba-2, `*` attention, `-` MLP, `E` mixture (Nemotron-H)."""
    mamba_num_heads: int = Field(default=0, ge=0)
    """Mamba-2: heads of a layer."""
    mamba_head_dim: int = Field(default=0, ge=0)
    """Mamba-2: elements of a head."""
    ssm_state_size: int = Field(default=0, ge=0)
    """Mamba-2: elements of the state of one channel."""
    n_groups: int = Field(default=1, gt=0)
    """Mamba-2: groups of heads that share their B and C."""
    conv_kernel: int = Field(default=4, gt=0)
    """Mamba-2 and gated delta rule: tokens that the short convolution reads."""
    chunk_size: int = Field(default=256, gt=0)
    """Mamba-2 and linear attention: tokens of a chunk, inside which the scan is a matrix product."""
    linear_num_key_heads: int = Field(default=0, ge=0)
    """Linear attention: key heads of a layer."""
    linear_num_value_heads: int = Field(default=0, ge=0)
    """Linear attention: value heads of a layer."""
    linear_key_head_dim: int = Field(default=0, ge=0)
    """Linear attention: elements of a key head."""
    linear_value_head_dim: int = Field(default=0, ge=0)
    """Linear attention: elements of a value head."""
    linear_attention_kind: Literal["gated_delta", "decayed"] = "gated_delta"
    """`gated_delta` with a short convolution before it (Qwen3-Next), or `decayed`: keys times values summed under a
    fixed decay, without convolution (TransNormerLLM, RetNet, lightning attention)."""
    full_attention_interval: int | None = Field(default=None, gt=0)
    """Every n-th layer uses full attention, the others linear attention (Qwen3-Next)."""
    # -- encoder-decoder (num_hidden_layers counts both), vision
    num_encoder_layers: int = Field(default=0, ge=0)
    """Encoder-decoder: layers of the encoder."""
    num_decoder_layers: int = Field(default=0, ge=0)
    """Encoder-decoder: layers of the decoder."""
    image_size: int = Field(default=0, ge=0)
    """Vision transformer: pixels of an image's side."""
    patch_size: int = Field(default=0, ge=0)
    """Vision transformer: pixels of a patch's side."""
    num_channels: int = Field(default=3, ge=0)
    """Vision transformer: channels of an image."""
    num_labels: int = Field(default=0, ge=0)
    """Classes that the head tells apart; 0: no such head."""
    tower_parameters: int = Field(default=0, ge=0)
    """Weights of vision and audio towers, with their projectors, in front of a text model."""
    # -- layers written one by one (family composed)
    layers: tuple[Layer, ...] = ()
    """In place of the fields above that describe a layer; heads and sizes above then stand for most layers."""
    input_parameters: int | None = Field(default=None, ge=0)
    """Weights in front of the layers where they are not one table of tokens; absent means that table."""
    output_parameters: int | None = Field(default=None, ge=0)
    """Weights behind the layers with the final norm; absent means that norm and, unless tied, a head."""
    output_size: int | None = Field(default=None, gt=0)
    """Width that the output head reads; absent means `hidden_size` (RemBERT, ELECTRA)."""
    # -- record
    num_parameters_published: float | None = None
    """Parameters as the publisher states them, for checks alone."""
    num_active_parameters_published: float | None = None
    """Parameters that a token uses, as the publisher states them, for checks alone."""
    provenance: Provenance | None = None
    """Where the figures were read, and when."""

    @model_validator(mode="after")
    def _consistent(self) -> ModelSpec:
        problems = []

        def check(passed: bool, field: str, rule: str) -> None:
            if not passed:
                problems.append(Problem(field, rule, value=getattr(self, field)))

        heads, experts = self.num_attention_heads, self.num_experts
        check(
            self.head_dim is not None or self.family == "mla_moe" or self.hidden_size % heads == 0,
            "num_attention_heads",
            f"must divide hidden_size {self.hidden_size} unless head_dim is given",
        )
        check(heads % self.kv_heads == 0, "num_key_value_heads", f"must divide num_attention_heads {heads}")
        if experts:
            check(0 < self.num_experts_per_tok <= experts, "num_experts_per_tok", f"must be 1 to num_experts {experts}")
            check(self.moe_intermediate_size > 0, "moe_intermediate_size", "must be above 0 when num_experts is given")
        if self.index_topk:
            check(self.is_mla, "index_topk", "needs latent attention: kv_lora_rank is absent")
            for field in ("index_n_heads", "index_head_dim"):
                check(getattr(self, field) > 0, field, "must be above 0 with index_topk")
        letters = self.hybrid_override_pattern
        check(
            not letters or len(letters) == self.num_hidden_layers,
            "hybrid_override_pattern",
            f"must have one letter per layer, num_hidden_layers {self.num_hidden_layers}; has {len(letters or '')}",
        )
        check(not set(letters or "") - set("M*-E"), "hybrid_override_pattern", "has letters other than M, *, - and E")
        kinds = set(letters or "")
        check("E" not in kinds or experts > 0, "num_experts", "must be above 0: hybrid_override_pattern has an E")
        if "M" in kinds:
            for field in ("mamba_num_heads", "mamba_head_dim", "ssm_state_size"):
                check(getattr(self, field) > 0, field, "must be above 0: hybrid_override_pattern has an M")
        if self.full_attention_interval:
            for kind in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim"):
                check(getattr(self, f"linear_{kind}") > 0, f"linear_{kind}", "must be above 0 with linear attention")
        if self.family == "encoder_decoder":
            both = self.num_encoder_layers + self.num_decoder_layers
            rule = f"must be num_encoder_layers + num_decoder_layers = {both}"
            check(both == self.num_hidden_layers, "num_hidden_layers", rule)
        if self.family == "vit":
            check(self.patch_size > 0, "patch_size", "must be above 0 for a vision transformer")
            check(self.image_size >= self.patch_size, "image_size", f"must be at least patch_size {self.patch_size}")
        check(
            (self.family == "composed") == bool(self.layers), "layers", "belongs to family composed, and it to layers"
        )
        depth = sum(layer.repeat for layer in self.layers)
        check(not self.layers or depth == self.num_hidden_layers, "layers", f"must be {self.num_hidden_layers} in all")
        if problems:
            raise Inconsistent(problems)
        return self

    def layer_of(self, kind: str) -> tuple[SubBlock, ...]:
        """Sub-blocks of the layers of a letter, where layers are written one by one."""
        return next(blocks for blocks, letter in letters(self.layers).items() if letter == kind)

    @property
    def kv_heads(self) -> int:
        """Key/value heads, MHA when unstated."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def attention_head_dim(self) -> int:
        """Elements of one query head."""
        if self.head_dim:
            return self.head_dim
        if self.kv_lora_rank:
            return self.qk_nope_head_dim + self.qk_rope_head_dim
        return self.hidden_size // self.num_attention_heads

    def attention_dims(self, *, windowed: bool) -> tuple[int, int, int]:
        """(head size, key/value heads, projections that keys and values take: 2, or 1 when shared) of a layer."""
        if windowed or not self.sliding_window:
            return self.attention_head_dim, self.kv_heads, 2
        heads = self.num_global_key_value_heads or self.kv_heads
        return self.global_head_dim or self.attention_head_dim, heads, 1 if self.attention_k_eq_v else 2

    @property
    def attended_window(self) -> int:
        """Most tokens that some layers attend to: a sliding window, or what an indexer picks; 0: no limit.

        In chunks a token has half of one before it on average. Layers written one by one: their widest window.
        """
        if self.layers:
            return max(block.window for layer in self.layers for block in layer.blocks)
        return self.index_topk or self.sliding_window or (self.attention_chunk_size or 0) // 2

    @property
    def widest_network(self) -> int:
        """Width of the widest dense feed-forward network."""
        widths = (b.rows[-1][0] for layer in self.layers for b in layer.blocks if b.kind == "mlp")
        return max(widths, default=self.intermediate_size)

    @property
    def routed_rows_per_token(self) -> float:
        """Rows that experts compute for each token when experts are drawn alike.

        Padded to their capacity, experts compute `capacity_factor` times the routed rows; without padding they compute
        what is routed and not dropped, which is never more than what is routed.
        """
        factor = 1.0 if self.capacity_factor is None else self.capacity_factor
        padded = self.moe_pad_expert_input_to_capacity
        return self.num_experts_per_tok * (factor if padded else min(factor, 1.0))

    @property
    def has_fixed_expert_rows(self) -> bool:
        """Whether the rows of every expert are known before the router has run: a capacity, filled up."""
        return self.capacity_factor is not None and self.moe_pad_expert_input_to_capacity

    @property
    def is_mla(self) -> bool:
        """Whether attention is multi-head latent attention."""
        return self.kv_lora_rank is not None

    def layer_kinds(self) -> str:
        """Depth as one letter a layer, in order.

        `D` attention + dense MLP, `E` attention + mixture, `W`/`X` the same two with the sliding window, `L`/`N`
        linear attention + dense MLP/mixture, `M` Mamba-2 alone, `A` attention alone, `F` MLP alone, `G` mixture alone,
        `B` bidirectional encoder block, `C` decoder block with cross attention. Layers written one by one have a
        small letter for each distinct one.
        """
        if self.layers:
            names = letters(self.layers)
            return "".join(names[layer.blocks] * layer.repeat for layer in self.layers)
        if self.hybrid_override_pattern:
            return self.hybrid_override_pattern.translate(str.maketrans("*-E", "AFG"))
        if self.family in ("encoder", "vit"):
            return "B" * self.num_hidden_layers
        if self.family == "encoder_decoder":
            return "B" * self.num_encoder_layers + "C" * self.num_decoder_layers
        kinds, windowed = [], self.sliding_window or self.attention_chunk_size
        for i in range(self.num_hidden_layers):
            moe = (
                self.num_experts > 0
                and i >= self.first_k_dense_replace
                and (i - self.first_k_dense_replace) % self.moe_layer_freq == self.moe_layer_freq - 1
            )
            if self.full_attention_interval and (i + 1) % self.full_attention_interval:
                kinds.append("N" if moe else "L")
            elif windowed and (not self.sliding_window_pattern or (i + 1) % self.sliding_window_pattern):
                kinds.append("X" if moe else "W")
            else:
                kinds.append("E" if moe else "D")
        return "".join(kinds)
