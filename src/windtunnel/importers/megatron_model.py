"""The model part of Megatron-LM arguments, in Hugging Face's names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import options

if TYPE_CHECKING:
    from windtunnel.importers.megatron_flags import Flags
    from windtunnel.specs.model import ModelSpec

DIMENSIONS = {
    "hidden_size": "hidden-size",
    "num_hidden_layers": "num-layers",
    "num_attention_heads": "num-attention-heads",
    "intermediate_size": "ffn-hidden-size",
    "head_dim": "kv-channels",
    "max_position_embeddings": "max-position-embeddings",
    "num_experts": "num-experts",
    "num_experts_per_tok": "moe-router-topk",
    "moe_intermediate_size": "moe-ffn-hidden-size",
    "shared_expert_intermediate_size": "moe-shared-expert-intermediate-size",
    "q_lora_rank": "q-lora-rank",
    "kv_lora_rank": "kv-lora-rank",
    "qk_nope_head_dim": "qk-head-dim",
    "qk_rope_head_dim": "qk-pos-emb-head-dim",
    "v_head_dim": "v-head-dim",
    "num_nextn_predict_layers": "mtp-num-layers",
}
"""Field → option that holds it."""
REQUIRED = ("hidden_size", "num_hidden_layers", "num_attention_heads")
VOCABULARIES = {
    "GPT2BPETokenizer": (50257, "GPT-2's"),
    "BertWordPieceLowerCase": (30522, "BERT's, uncased"),
    "BertWordPieceCase": (28996, "BERT's, cased"),
    "Llama2Tokenizer": (32000, "Llama 2's and Mistral 7B's"),
    "SentencePieceTokenizer": (32000, "Llama 2's; the model file may hold another"),
    "GPTSentencePieceTokenizer": (256000, "Nemotron's, in NVIDIA's own examples; the model file may hold another"),
    "TikTokenizer": (131072, "Megatron-LM's default of this type"),
}
"""Tokenizer type → size and whose vocabulary it is. Published ones, or what Megatron-LM's examples use."""
LANGUAGE_MODELS = {
    "llama3_8b": "meta-llama/Llama-3.1-8B",
    "llama3.1_8b": "meta-llama/Llama-3.1-8B",
    "llama3.1_70b": "meta-llama/Llama-3.1-70B",
    "llama3.1_70B": "meta-llama/Llama-3.1-70B",
    "mistral_7b": "mistralai/Mistral-7B-v0.1",
    "yi-34b": "01-ai/Yi-34B",
    "qwen2.0_72B": "Qwen/Qwen2.5-72B",
    "qwen2.5_7B": "Qwen/Qwen2.5-7B",
    "qwen2.5_72B": "Qwen/Qwen2.5-72B",
}
"""`--language-model-type` of Megatron-LM's `examples/multimodal/config.py` → catalogue entry of these dimensions."""
MLA_DEFAULTS = {"kv_lora_rank": 32, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
_POSITIONS = {
    "learned_absolute": "learned",
    "rope": "rope",
    "yarn": "rope",
    "mrope": "rope",
    "none": "none",
    "alibi": "alibi",
    "relative": "relative",
}
_OTHERS = (
    "heterogeneous-layers-config-path",
    "bert-no-binary-head",
    "linear-attention-type",
    "experimental-attention-variant",
    "use-gated-attention",
    "attention-output-gate",
    "moe-latent-size",
    "post-self-attn-layernorm",
    "post-mlp-layernorm",
)


def read_model(launch: Launch, flags: Flags, wanted: Wanted) -> None:
    """The model: a catalogue name when `--model` or equal dimensions give one, else spelled out."""
    before = len(launch.problems)
    fields: dict[str, Any] = {}
    lines: dict[str, tuple[str, int | None]] = {}
    for field, name in DIMENSIONS.items():
        value = flags.number(name, least=0)
        if value is not None:
            fields[field], lines[field] = value, (f"--{name}", flags.line(name))
    _stacks(launch, flags, fields, lines)
    _shape(launch, flags, fields, lines)
    if wanted.model is None and "hidden_size" not in fields and _language_model(launch, flags):
        flags.set_aside("tokenizer-type", "tokenizer-model", "vocab-file", "merge-file")
        return
    vocab = _vocabulary(launch, flags, wanted, encoder=fields.get("family") == "encoder")
    if wanted.model is not None:
        launch.named_model(wanted.model, "--model of windtunnel import")
        _compare(launch, fields, lines)
        return
    for name in _OTHERS:
        if flags.present(name):
            launch.wrong(
                f"--{name}",
                "is not read: the model is not a plain decoder; name it with --model",
                line=flags.line(name),
            )
    for field in REQUIRED:
        name = DIMENSIONS[field]
        if field not in fields and name not in flags.given:
            launch.wrong(f"--{name}", "is required, or --model for windtunnel import")
    if vocab is None and len(launch.problems) == before:
        vocab = _public_vocabulary(launch, fields, lines)
    if vocab is None and not any(p.field == "--vocab-size" for p in launch.problems):
        why = "is required: the script leaves the vocabulary to its tokenizer; --vocab-size or --model for"
        launch.wrong("--vocab-size", f"{why} windtunnel import")
    if len(launch.problems) > before:
        return
    if vocab is not None:
        fields["vocab_size"], lines["vocab_size"] = vocab[0], (vocab[1], vocab[2])
    _left_out(launch, fields, lines)
    first = {"name": wanted.name or re.sub(r"\.\w+$", "", launch.file.rsplit("/", 1)[-1]).strip("-") or "model"}
    if "family" not in fields:
        mixture = "moe" if fields.get("num_experts") else "dense"
        first["family"] = "mla_moe" if "kv_lora_rank" in fields else mixture
    launch.model({**first, **fields}, lines)


def _public_models(fields: dict[str, Any], lines: dict[str, tuple[str, int | None]]) -> list[ModelSpec]:
    """Models of the catalogue that have the sizes which a script states; none where it leaves widths to defaults."""
    from windtunnel import catalog

    width = "moe_intermediate_size" if fields.get("num_experts") else "intermediate_size"
    if "family" in fields or lines.get(width, ("", None))[1] is None:
        return []
    heads = fields.get("num_attention_heads")
    sizes = {
        "num_hidden_layers": fields.get("num_hidden_layers"),
        "hidden_size": fields.get("hidden_size"),
        "num_attention_heads": heads,
        "kv_heads": fields.get("num_key_value_heads") or heads,
        "num_experts": fields.get("num_experts") or 0,
        "num_experts_per_tok": fields.get("num_experts_per_tok") or 0,
        "moe_intermediate_size": fields.get("moe_intermediate_size") or 0,
        "kv_lora_rank": fields.get("kv_lora_rank"),
    }
    if not sizes["num_experts"]:
        sizes[width] = fields[width]
    found = map(catalog.model, catalog.models())
    return [model for model in found if all(getattr(model, name) == size for name, size in sizes.items())]


def _public_vocabulary(
    launch: Launch, fields: dict[str, Any], lines: dict[str, tuple[str, int | None]]
) -> tuple[int, str, int | None] | None:
    """The vocabulary of the public models with these sizes, where they agree."""
    public = _public_models(fields, lines)
    sizes = {model.vocab_size for model in public}
    if len(sizes) != 1:
        return None
    name, size = public[0].name, sizes.pop()
    launch.assumed.append(("model.vocab_size", str(size), f"not in the file, which has the sizes of {name}"))
    return size, f"as {name}", None


def _left_out(launch: Launch, fields: dict[str, Any], lines: dict[str, tuple[str, int | None]]) -> None:
    """Gating and window of the public model with these sizes: a switch missing in the script does not undo them.

    Models of the same sizes are distinguished by their vocabulary; only what all that are left have in common is taken.
    """
    public = [model for model in _public_models(fields, lines) if model.vocab_size == fields.get("vocab_size")]
    if not public:
        return
    name = public[0].name
    gates = {(model.gated_mlp, model.hidden_act) for model in public}
    if not fields["gated_mlp"] and lines["gated_mlp"][1] is None and len(gates) == 1:
        gated, activation = gates.pop()
        if gated and "hidden_act" in lines and lines["hidden_act"][1] is None:
            fields["gated_mlp"], fields["hidden_act"] = True, activation
            lines["gated_mlp"] = lines["hidden_act"] = (f"as {name}", None)
            why = f"the script has no --swiglu, but the sizes of {name}, whose MLP is gated"
            launch.assumed.append(("model.gated_mlp", "true", why))
    windows = {(model.sliding_window, model.sliding_window_pattern) for model in public}
    if len(windows) == 1 and (window := windows.pop())[0]:
        for field, value in zip(("sliding_window", "sliding_window_pattern"), window, strict=True):
            if value is not None and field not in fields:
                fields[field], lines[field] = value, (f"as {name}", None)
        why = f"the script states no window, but the sizes of {name}, which has one"
        launch.assumed.append(("model.sliding_window", str(window[0]), why))


def _stacks(launch: Launch, flags: Flags, fields: dict[str, Any], lines: dict[str, tuple[str, int | None]]) -> None:
    """Models other than plain decoders: a pattern of Mamba layers, an encoder, an encoder with a decoder."""

    def put(field: str, value: Any, name: str) -> None:
        fields[field], lines[field] = value, (f"--{name}", flags.line(name))

    for name in ("hybrid-layer-pattern", "hybrid-override-pattern"):
        pattern = flags.text(name)
        if pattern is None:
            continue
        letters = pattern.strip("'\"").split("/")[0].replace("|", "")  # prediction layers and stage borders left out
        if set(letters) - set("M*-E"):
            launch.wrong(f"--{name}", "has layers other than M, *, - and E", pattern, flags.line(name))
            return
        put("family", "hybrid", name)
        put("hybrid_override_pattern", letters, name)
        put("num_hidden_layers", len(letters), name)
        head = flags.number("mamba-head-dim") or 64
        heads = flags.number("mamba-num-heads") or 2 * int(fields.get("hidden_size") or 0) // head
        put("mamba_head_dim", head, "mamba-head-dim")
        put("mamba_num_heads", heads, "mamba-num-heads")
        put("ssm_state_size", flags.number("mamba-state-dim") or 128, "mamba-state-dim")
        put("n_groups", flags.number("mamba-num-groups") or 8, "mamba-num-groups")
    encoder, decoder = flags.number("encoder-num-layers"), flags.number("decoder-num-layers")
    if encoder is not None and decoder is not None:
        put("family", "encoder_decoder", "encoder-num-layers")
        put("num_encoder_layers", encoder, "encoder-num-layers")
        put("num_decoder_layers", decoder, "decoder-num-layers")
        put("num_hidden_layers", encoder + decoder, "encoder-num-layers")
    elif "bert-no-binary-head" in flags.given or "pretrain_bert.py" in flags.programs:
        flags.set_aside("bert-no-binary-head")
        put("family", "encoder", "num-layers")


def _language_model(launch: Launch, flags: Flags) -> bool:
    """The language model that a multimodal training names, without its vision tower; False when it names none."""
    kind = flags.text("language-model-type")
    if kind is None or kind not in LANGUAGE_MODELS:
        return False
    for name in ("vision-model-type", "img-h", "img-w", "patch-dim"):
        if name in flags.given:
            flags.set_aside(name)
            value = " ".join(flags.given[name][0])
            launch.leave(f"--{name}", value, flags.line(name), "the vision tower is not part of the scenario")
    return launch.named_model(LANGUAGE_MODELS[kind], f"--language-model-type {kind}", flags.line("language-model-type"))


def _shape(launch: Launch, flags: Flags, fields: dict[str, Any], lines: dict[str, tuple[str, int | None]]) -> None:
    """What switches and defaults decide."""

    def put(field: str, value: Any, *names: str, otherwise: Any = None) -> bool:
        for name in names:
            if flags.present(name):
                fields[field], lines[field] = value, (f"--{name}", flags.line(name))
                return True
        if otherwise is not None:
            fields[field], lines[field] = otherwise, (f"no --{names[0]}", None)
        return False

    grouped = flags.present("group-query-attention")
    groups = flags.number("num-query-groups")
    if grouped:
        fields["num_key_value_heads"] = groups or 1
        lines["num_key_value_heads"] = ("--num-query-groups", flags.line("num-query-groups"))
    elif groups is not None and "num-query-groups" in flags.given:
        launch.leave(
            "--num-query-groups",
            str(groups),
            flags.line("num-query-groups"),
            "has no effect without --group-query-attention",
        )
    gated = put("gated_mlp", True, "swiglu", "quick-geglu", "use-fused-weighted-squared-relu-glu", otherwise=False)
    if flags.present("squared-relu"):
        fields["hidden_act"], lines["hidden_act"] = "relu2", ("--squared-relu", flags.line("squared-relu"))
    else:
        act = "silu" if flags.present("swiglu") else "gelu"
        name = next((n for n in ("swiglu", "quick-geglu") if n in flags.given), None)
        fields["hidden_act"] = act
        lines["hidden_act"] = (f"--{name}", flags.line(name)) if name else ("Megatron's default", None)
    hidden = fields.get("hidden_size")
    if "intermediate_size" not in fields and hidden:
        width = int(4 * hidden * 2 / 3) // 64 * 64 if gated else 4 * hidden
        fields["intermediate_size"] = width
        lines["intermediate_size"] = ("no --ffn-hidden-size: " + ("8/3" if gated else "4") + " of --hidden-size", None)
    norm = flags.text("normalization", choices=("LayerNorm", "RMSNorm"))
    fields["norm"] = "rmsnorm" if norm == "RMSNorm" else "layernorm"
    lines["norm"] = ("--normalization", flags.line("normalization")) if norm else ("no --normalization", None)
    put("qk_norm", True, "qk-layernorm")
    put("tie_word_embeddings", False, "untie-embeddings-and-output-weights", otherwise=True)
    biased = not flags.present("disable-bias-linear")
    where = ("--disable-bias-linear", flags.line("disable-bias-linear"))
    fields["mlp_bias"] = fields["attention_bias"] = biased
    lines["mlp_bias"] = lines["attention_bias"] = ("no --disable-bias-linear", None) if biased else where
    put("attention_bias", True, "add-qkv-bias")
    position = flags.text("position-embedding-type", choices=tuple(_POSITIONS))
    fields["position_embedding"] = _POSITIONS[position or "learned_absolute"]
    lines["position_embedding"] = ("--position-embedding-type", flags.line("position-embedding-type"))
    if position is None:
        lines["position_embedding"] = ("no --position-embedding-type", None)
        put("position_embedding", "rope", "use-rotary-position-embeddings")
    heads = fields.get("num_attention_heads")
    if fields.get("head_dim") and heads and hidden == fields["head_dim"] * heads:
        del fields["head_dim"]
    _mixture(launch, flags, fields, lines)
    _latent(flags, fields, lines)


def _mixture(launch: Launch, flags: Flags, fields: dict[str, Any], lines: dict[str, tuple[str, int | None]]) -> None:
    name = "moe-pad-expert-input-to-capacity"
    padded = flags.present(name)
    if not fields.get("num_experts"):
        for field in ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size"):
            fields.pop(field, None)
        return
    if "num_experts_per_tok" not in fields:
        fields["num_experts_per_tok"], lines["num_experts_per_tok"] = 2, ("no --moe-router-topk", None)
    if "moe_intermediate_size" not in fields and "intermediate_size" in fields:
        fields["moe_intermediate_size"] = fields["intermediate_size"]
        lines["moe_intermediate_size"] = ("no --moe-ffn-hidden-size: as --ffn-hidden-size", None)
    shared, width = fields.get("shared_expert_intermediate_size"), fields.get("moe_intermediate_size")
    if shared:
        fields["n_shared_experts"] = shared // width if width and shared % width == 0 else 1
        lines["n_shared_experts"] = lines["shared_expert_intermediate_size"]
    factor = flags.real("moe-expert-capacity-factor")
    if factor is not None and factor > 0:
        fields["capacity_factor"] = factor
        lines["capacity_factor"] = ("--moe-expert-capacity-factor", flags.line("moe-expert-capacity-factor"))
        fields["moe_pad_expert_input_to_capacity"] = padded
        where = (f"--{name}", flags.line(name)) if padded else (f"no --{name}", None)
        lines["moe_pad_expert_input_to_capacity"] = where
    text = flags.texts("moe-layer-freq")
    if text:
        where = ("--moe-layer-freq", flags.line("moe-layer-freq"))
        pattern = layer_pattern("".join(text), int(fields.get("num_hidden_layers") or 0))
        if pattern is None:
            rule = "must be a number, or a list like [0]*3+[1]*58 with dense layers first"
            launch.wrong("--moe-layer-freq", rule, " ".join(text), where[1])
        else:
            if len(text) == 1 and pattern[1] > 1:
                launch.leave(
                    *where[:1], text[0], where[1], "the last, not the first, of each group of layers is a mixture"
                )
            for field, value in zip(("first_k_dense_replace", "moe_layer_freq"), pattern, strict=True):
                if value != (0, 1)[field == "moe_layer_freq"]:
                    fields[field], lines[field] = value, where


def layer_pattern(text: str, depth: int) -> tuple[int, int] | None:
    """`--moe-layer-freq` as (dense layers first, one mixture in every n after them); None when it is neither.

    A number n makes layers 0, n, 2n … mixtures. A list has one entry a layer, 1 for a mixture, built of `[…]*n` and +.
    """
    text = text.strip("'\"()").replace(" ", "")
    if re.fullmatch(r"[1-9]\d{0,14}", text):
        return 0, int(text)
    kinds: list[int] = []
    for part in text.split("+"):
        found = re.fullmatch(r"\(?\[([01](?:,[01])*)\]\)?(?:\*(\d{1,4}))?", part.strip("()"))
        if not found:
            return None
        kinds += [int(kind) for kind in found.group(1).split(",")] * int(found.group(2) or 1)
    dense = kinds.index(1) if 1 in kinds else len(kinds)
    rest = kinds[dense:]
    if len(kinds) == depth and all(rest):
        return dense, 1
    for n in range(2, len(kinds) + 1):
        if len(kinds) == depth and all(kind == (i % n == n - 1) for i, kind in enumerate(kinds)):
            return 0, n
    return None


def _latent(flags: Flags, fields: dict[str, Any], lines: dict[str, tuple[str, int | None]]) -> None:
    if not flags.present("multi-latent-attention"):
        for field in ("q_lora_rank", *MLA_DEFAULTS):
            fields.pop(field, None)
        return
    for field, value in MLA_DEFAULTS.items():
        if field not in fields:
            fields[field], lines[field] = value, (f"no --{DIMENSIONS[field]}", None)
    if fields.pop("qk_norm", None):  # --qk-layernorm: the norms of the latents, which every such layer here has
        lines.pop("qk_norm", None)
    fields.pop("head_dim", None)
    fields["num_key_value_heads"] = fields.get("num_attention_heads")


def _vocabulary(
    launch: Launch, flags: Flags, wanted: Wanted, *, encoder: bool = False
) -> tuple[int, str, int | None] | None:
    """(size, what states it, line)."""
    padded, plain = flags.number("padded-vocab-size"), flags.number("vocab-size")
    tokenizer = flags.given.get("tokenizer-type", ([], 0))[0]
    flags.set_aside("tokenizer-type", "tokenizer-model", "vocab-file")
    multiple = flags.number("make-vocab-size-divisible-by")
    if padded:
        launch.set("training.padded_vocab", False, "--padded-vocab-size", flags.line("padded-vocab-size"))
        return padded, "--padded-vocab-size", flags.line("padded-vocab-size")
    if multiple is not None and multiple != 128:
        launch.leave(
            "--make-vocab-size-divisible-by",
            str(multiple),
            flags.line("make-vocab-size-divisible-by"),
            "a scenario pads the vocabulary to 128 · tp",
        )
    if wanted.vocab_size:
        return wanted.vocab_size, "--vocab-size of windtunnel import", None
    if plain:
        return plain, "--vocab-size", flags.line("vocab-size")
    if tokenizer and tokenizer[0] in VOCABULARIES:
        size, whose = VOCABULARIES[tokenizer[0]]
        launch.assumed.append(("model.vocab_size", str(size), f"the vocabulary of {tokenizer[0]}: {whose}"))
        return size, f"--tokenizer-type {tokenizer[0]}", flags.line("tokenizer-type")
    if not tokenizer and {"vocab-file", "merge-file"} <= flags.given.keys():
        launch.assumed.append(("model.vocab_size", "50257", "--vocab-file with --merge-file: GPT-2's byte pairs"))
        return VOCABULARIES["GPT2BPETokenizer"][0], "--merge-file", flags.line("merge-file")
    if not tokenizer and encoder and "vocab-file" in flags.given:
        size, whose = VOCABULARIES["BertWordPieceLowerCase"]
        launch.assumed.append(("model.vocab_size", str(size), f"--vocab-file of an encoder: {whose}"))
        return size, "--vocab-file", flags.line("vocab-file")
    provider = flags.given.get("model-provider", ([], 0))[0]
    sizes: dict[str, int] = options("megatron")["providers"]
    if provider and provider[0] in sizes:
        flags.set_aside("model-provider")
        size = sizes[provider[0]]
        launch.assumed.append(("model.vocab_size", str(size), f"as Megatron-LM's model_providers/{provider[0]}.py"))
        return size, f"--model-provider {provider[0]}", flags.line("model-provider")
    model = flags.given.get("tokenizer-model", ([], 0))[0]
    named = [(model[0], "--tokenizer-model")] if model and "$" not in model[0] else []
    for checkpoint, said in [*named, *flags.checkpoints]:
        found = _checkpoint_vocabulary(checkpoint)
        if found is not None:
            why = f"{said} names {found[1]}"
            launch.assumed.append(("model.vocab_size", str(found[0]), why))
            return found[0], why, flags.line("tokenizer-model") if said.startswith("--") else None
    return None


def _checkpoint_vocabulary(name: str) -> tuple[int, str] | None:
    """(size, whose) vocabulary a checkpoint's name says: of the catalogue, or of a published tokenizer."""
    from windtunnel import catalog

    last = name.rstrip("/").rsplit("/", 1)[-1]
    for spelling in dict.fromkeys((name, last)):
        try:
            entry = catalog.model(spelling)
        except BadInput:
            continue
        return entry.vocab_size, entry.name
    known: dict[str, int] = options("megatron")["tokenizers"]
    size = {key.casefold(): value for key, value in known.items()}.get(last.casefold())
    return (size, last) if size else None


def _compare(launch: Launch, fields: dict[str, Any], lines: dict[str, tuple[str, int | None]]) -> None:
    """Dimensions of the script that the named model does not have are not taken over."""
    from windtunnel import catalog

    if "model" not in launch.fields:
        return
    spec = catalog.model(launch.fields["model"])
    own = {**spec.model_dump(), "num_key_value_heads": spec.kv_heads, "head_dim": spec.attention_head_dim}
    for field, value in fields.items():
        if field in lines and field in own and own[field] != value and field != "max_position_embeddings":
            said, line = lines[field]
            if line is not None:
                launch.leave(said, str(value), line, f"{spec.name} of --model has {field} = {own[field]}")
