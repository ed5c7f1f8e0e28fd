"""Read any Hugging Face `config.json` as a `ModelSpec`, without the library and without code for each model.

Fields are found by meaning: every spelling that a family uses for a dimension is in `SPELLINGS`. What a config leaves
to the model's code (norm, gating, biases, positions) is in `TRAITS`, one row per `model_type`. Families whose layers
differ in more than that have readers in `importers.huggingface`. An unknown type is read as a Llama-like decoder, and
everything that was taken for granted is listed, unless its file has fields that such a decoder has nothing for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from windtunnel.errors import UNSET, BadInput, Problem, ProblemList
from windtunnel.files import reading
from windtunnel.files.parsing import json_of
from windtunnel.importers.huggingface import reader_of
from windtunnel.importers.huggingface.known_types import (
    DEFAULTS,
    FOREIGN,
    GATED,
    HARMLESS,
    NESTED_DEFAULTS,
    READ_BY_MEANING,
    REFUSED,
    SPELLINGS,
    TOLD_BY_ABSENCE,
    TRAITS,
)
from windtunnel.importers.huggingface.network import Config
from windtunnel.importers.huggingface.quantization import stored_formats
from windtunnel.importers.huggingface.towers import counted_towers
from windtunnel.importers.huggingface.value_kinds import value_problems
from windtunnel.scenarios.explain import explain
from windtunnel.scenarios.read import lines_of
from windtunnel.specs.model import ModelSpec, Provenance

REQUIRED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")

# Types whose feed-forward width is four times the hidden size when the config does not say.
_FOUR_TIMES = frozenset(
    {"gpt2", "gptj", "gpt_neo", "bloom", "falcon", "mpt", "codegen", "gpt_bigcode", "openai-gpt", "xlm"}
)
_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_python": "gelu",
    "swish": "silu",
    "swiglu": "silu",
    "quick_gelu": "gelu",
    "gelu_10": "gelu",
    "squared_relu": "relu2",
}


def _leading_dense_layers(config: Mapping[str, Any], depth: Any) -> int | None:
    """Dense layers before the first mixture where the file lists them, or None where it does not."""
    kinds, dense = config.get("mlp_layer_types"), config.get("mlp_only_layers")
    if isinstance(kinds, list) and "sparse" in kinds and "dense" not in kinds[kinds.index("sparse") :]:
        return kinds.index("sparse")
    if isinstance(dense, list) and dense and dense == list(range(len(dense))):
        return len(dense)
    if isinstance(dense, list) and isinstance(depth, int) and len(dense) == depth:
        return depth
    return None


@dataclass(frozen=True, slots=True)
class HfImport:
    """A model and what reading its config took for granted."""

    model: ModelSpec
    assumed: tuple[tuple[str, str, str], ...]
    """(field, value, why)."""


def from_hf_config(config: Mapping[str, Any] | str | Path, name: str | None = None) -> ModelSpec:
    """The model that a Hugging Face config describes.

    Args:
        config: the parsed file, or its path.
        name: name of the result; absent means the config's `_name_or_path`, the folder or the model type.

    Raises:
        BadInput: not a config, or dimensions are missing or contradict each other; lists all of them.
    """
    return read_hf_config(config, name).model


def read_hf_config(config: Mapping[str, Any] | str | Path, name: str | None = None) -> HfImport:
    """Read a Hugging Face configuration as `from_hf_config` does, and list what was assumed."""
    file: str | None = None
    if isinstance(config, str | Path):
        file = str(config)
        config = load_hf_config(Path(config))
        folder = Path(file).parent if Path(file).suffix == ".json" or reading.is_file(file) else Path(file)
        name = name or config.get("_name_or_path") or folder.resolve().name
    wrong = [problem.under("model") for problem in value_problems(config)]
    if wrong:
        raise _at_lines(BadInput(wrong), file)
    config = _thinker(config)
    reader, part = reader_of(config), config
    if reader is None and (inner := _text_part(config)):
        reader, part = reader_of(inner), inner
    if reader is not None:
        fields = Config(part, name or str(config.get("_name_or_path") or config.get("model_type")))
        try:
            model = reader(fields)
        except BadInput as error:
            raise _at_lines(error, file) from None
        return HfImport(*_with_towers(model, config, fields.assumed))
    return _Reader(config, name, file).read()


def _thinker(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of an omni model that reads and writes text, which holds its towers too."""
    thinker = config.get("thinker_config")
    if not isinstance(thinker, Mapping) or not isinstance(thinker.get("text_config"), Mapping):
        return config
    return {"tie_word_embeddings": config.get("tie_word_embeddings"), **thinker}


def _text_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """The text part of a composed model with the switches that the whole file sets; empty where it has none."""
    inner = next((dict(part) for key in _NESTED if isinstance(part := config.get(key), Mapping)), {})
    if inner and config.get("tie_word_embeddings") is not None:
        inner["tie_word_embeddings"] = config["tie_word_embeddings"]
    return inner


def _with_towers(
    model: ModelSpec, config: Mapping[str, Any], assumed: list[tuple[str, str, str]]
) -> tuple[ModelSpec, tuple[tuple[str, str, str], ...]]:
    """A model whose reader knows its text part alone, with the towers that the whole file describes."""
    if model.tower_parameters:
        return model, tuple(assumed)
    towers = counted_towers(config, model.hidden_size)
    if towers.why:
        assumed = [*assumed, ("model.tower_parameters", str(towers.count), towers.why)]
    return model.model_copy(update={"tower_parameters": towers.count}), tuple(assumed)


def _at_lines(error: BadInput, file: str | None) -> BadInput:
    """The problems with the file and the lines that they stand on."""
    lines = lines_of(file) if file else {}
    return BadInput(replace(p, file=file, line=lines.get(p.field.removeprefix("model."))) for p in error.problems)


def checkpoint_formats(config: Mapping[str, Any] | Path) -> dict[str, str] | None:
    """Fields of `serving.precision` that a checkpoint decides; None where it states none.

    Args:
        config: the parsed `config.json`, or its path or folder, where `hf_quant_config.json` is read too.
    """
    if not isinstance(config, Path):
        return stored_formats(config)
    fields = load_hf_config(config)
    beside = (config.parent if config.suffix == ".json" else config) / "hf_quant_config.json"
    if reading.is_file(beside):
        own = load_hf_config(beside).get("quantization")
        if isinstance(own, Mapping) and (found := stored_formats(fields | {"quantization_config": own})) is not None:
            return found
    return stored_formats(fields)


MOST_CONFIG_BYTES = 8_000_000
"""Bytes of a `config.json`; those of released models have less than 200 kB."""


def load_hf_config(path: Path) -> dict[str, Any]:
    """Fields of a `config.json`, given as the file or its folder.

    Raises:
        BadInput: the file cannot be read or holds no JSON object.
    """
    path = path if reading.is_file(path) or path.suffix == ".json" else path / "config.json"
    try:
        data = json_of(reading.read_text(path, "model.config", most_bytes=MOST_CONFIG_BYTES))
    except ValueError as error:
        rule = f"is not JSON: {error}"
    else:
        if isinstance(data, dict):
            return data
        rule = "must hold a JSON object"
    raise BadInput(Problem("model.config", rule, str(path)))


def _known_type(kind: str) -> str:
    """A type without `_text` at its end where the table knows it by that name alone."""
    short = kind.removesuffix("_text")
    known = kind in TRAITS or kind in READ_BY_MEANING
    return short if not known and (short in TRAITS or short in READ_BY_MEANING) else kind


class _Reader:
    """One reading of one config."""

    def __init__(self, config: Mapping[str, Any], name: str | None, file: str | None) -> None:
        outer = self.outer = dict(config)
        inner: dict[str, Any] = next((dict(outer[k]) for k in _NESTED if isinstance(outer.get(k), Mapping)), {})
        around = {
            k: v for k, v in outer.items() if k not in (*_NESTED, "head_dim")
        }  # a head of the whole is none of it
        self.config = {**around, **inner} if inner else outer
        self.model_type = _known_type(str(self.config.get("model_type") or outer.get("model_type") or ""))
        self.name = name or outer.get("_name_or_path") or self.model_type or "unnamed"
        self.file = file
        self.nested = bool(inner)
        self.assumed: list[tuple[str, str, str]] = []
        if inner and outer.get("tie_word_embeddings") is not None:  # the composed model ties its head, not its part
            self.config["tie_word_embeddings"] = outer["tie_word_embeddings"]
        if inner:
            self.assumed.append(("model", self.model_type, "only the text part of a composed model is read"))

    def get(self, field: str) -> Any:
        """The value of a `ModelSpec` field under any of its spellings, or None."""
        for spelling in SPELLINGS[field]:
            value: Any = self.config
            for part in spelling.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if value is not None:
                return value
        return None

    def read(self) -> HfImport:
        """Fields by meaning, then what the type's code decides, then the odd ones of single families."""
        traits = TRAITS.get(self.model_type)
        if traits is None:
            self._refuse_foreign()
            traits = {}
            shown = self.model_type or "(none)"
            self.assumed.append(("model.model_type", shown, "not a known type; read as a Llama-like decoder"))
            for field, default in (("norm", "rmsnorm"), ("gated_mlp", "true"), ("position_embedding", "rope")):
                self.assumed.append((f"model.{field}", default, "not stated by the config"))
        fields: dict[str, Any] = dict(traits)
        for field in SPELLINGS:
            value = self.get(field)
            if value is not None:
                fields[field] = value
        self._defaults(fields, known=self.model_type in TRAITS)
        act = self.config.get("feed_forward_proj") or fields.get("hidden_act")
        if isinstance(act, str):
            if act.startswith("gated-"):
                fields["gated_mlp"], act = True, act.removeprefix("gated-")
            fields["hidden_act"] = _ACTIVATIONS.get(act, act)
        self._norm(fields)
        self._attention(fields)
        self._mlp(fields)
        self._mixture(fields)
        self._family(fields)
        self._towers(fields)
        self._check_required(fields)
        known = set(ModelSpec.model_fields)
        fields = {k: v for k, v in fields.items() if k in known and v is not None}
        fields["name"] = self.name
        fields["provenance"] = Provenance(source=f"config.json of {self.name}")
        try:
            model = ModelSpec.model_validate(fields)
        except ValidationError as error:
            raise BadInput(self._located(problem) for problem in explain(ModelSpec, fields, error)) from None
        return HfImport(model, tuple(self.assumed))

    def _refuse_foreign(self) -> None:
        """Raise for a type that is not known and whose file has fields of another network than a Llama-like decoder."""
        kind, problems = self.model_type, ProblemList(prefix="model")
        if kind in REFUSED:
            problems.add("model_type", kind, REFUSED[kind])
        elif kind not in READ_BY_MEANING and self.outer.get("model_type") not in READ_BY_MEANING:
            towers = ("vision_config", "audio_config") if self.nested and self._is_gated() else ()
            given = (
                k
                for k, v in self.config.items()
                if k not in HARMLESS and k not in towers and (v or k in TOLD_BY_ABSENCE)
            )
            foreign = sorted(k for k in given if any(stem in k for stem in FOREIGN))
            spoken = {s for names in SPELLINGS.values() for s in names}
            foreign = [k for k in foreign if k not in spoken or k.startswith(("mamba", "ssm"))]
            kinds = {str(k) for k in self.config.get("layer_types") or []} if kind else set()
            odd = sorted(kinds - {"full_attention", "sliding_attention", "chunked_attention"})
            if "kv_channels" in self.config and self.get("num_experts"):  # experts of attention (JetMoE)
                foreign.append("kv_channels with experts")
            if foreign or odd:
                rule = f"is not known, and a Llama-like decoder has nothing for {', '.join([*foreign, *odd])}"
                problems.add("model_type", kind or "(none)", rule)
            if not self._is_gated():
                act = self.get("hidden_act")
                shown = f", with activation {act}," if act is not None else ""
                rule = f"is not known, and nothing in the file says whether its MLP{shown} is gated"
                problems.add("model_type", kind or "(none)", rule)
        problems.raise_if_any()

    def _is_gated(self) -> bool:
        """Whether the file of an unknown type says that its MLP is gated.

        SiLU stands in gated networks alone; the tanh form of GELU stands in gated ones next to root-mean-square norms
        (Gemma) and in plain ones next to layer norms (StarCoder 2). Files without an activation say it by that norm.
        """
        act = self.get("hidden_act")
        return act in GATED or (act in (None, "gelu_pytorch_tanh") and "rms_norm_eps" in self.config)

    def _located(self, problem: Problem) -> Problem:
        """The problem with the place in the file, under whatever name the file gives the field."""
        lines = lines_of(self.file) if self.file else {}
        names = (problem.field, *SPELLINGS.get(problem.field, ()))
        line = next((lines[name] for name in names if name in lines), None)
        return replace(problem, field=f"model.{problem.field}", file=self.file, line=line)

    def _defaults(self, fields: dict[str, Any], known: bool) -> None:
        """What the library's config class fills in when the file is silent."""
        left_out = NESTED_DEFAULTS.get(self.model_type, {}) if self.nested else {}
        for field, value in {**left_out, **DEFAULTS.get(self.model_type, {})}.items():
            if fields.get(field) is None:
                fields[field] = value
                self.assumed.append((f"model.{field}", str(value), f"default of {self.model_type} configs"))
        if not known and self.get("tie_word_embeddings") is None:
            self.assumed.append(("model.tie_word_embeddings", "false", "not stated by the config"))

    def _norm(self, fields: dict[str, Any]) -> None:
        if self.model_type not in TRAITS:
            if any(k in self.config for k in ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")):
                fields["norm"] = "layernorm"
            elif "rms_norm_eps" in self.config:
                fields["norm"] = "rmsnorm"
        for key in ("use_qk_norm", "qk_layernorm", "qk_norm"):
            if key in self.config:
                fields["qk_norm"] = bool(self.config[key])

    def _attention(self, fields: dict[str, Any]) -> None:
        c, kind = self.config, self.model_type
        if kind == "falcon":
            if not c.get("new_decoder_architecture"):
                fields["num_key_value_heads"] = 1 if c.get("multi_query", True) else None
            fields["parallel_block"] = bool(c.get("parallel_attn", True) or c.get("new_decoder_architecture"))
            fields["position_embedding"] = "alibi" if c.get("alibi") else "rope"
            fields["attention_bias"] = fields["mlp_bias"] = bool(c.get("bias", False))
        if kind == "mpt":
            fields["position_embedding"] = "alibi" if (c.get("attn_config") or {}).get("alibi") else "learned"
            fields["attention_bias"] = fields["mlp_bias"] = not c.get("no_bias", True)
        if kind == "gpt_bigcode" and c.get("multi_query", True):
            fields["num_key_value_heads"] = 1
        if kind == "dbrx":
            fields["num_key_value_heads"] = (c.get("attn_config") or {}).get("kv_n_heads")
        if kind == "starcoder2":
            fields["attention_bias"] = fields["mlp_bias"] = bool(c.get("use_bias", True))
        if kind == "stablelm":
            fields["attention_bias"] = bool(c.get("use_qkv_bias", False))
        if (
            kind in ("glm4_moe", "glm4v_moe_text")
            and not fields.get("head_dim")
            and isinstance(fields.get("hidden_size"), int)
        ):
            fields["head_dim"] = fields["hidden_size"] // (fields.get("num_attention_heads") or 1)
        if kind == "moshi" and isinstance(fields.get("intermediate_size"), int):
            fields["intermediate_size"] //= 2  # `ffn_dim` counts gate and input together
        if kind in ("gemma4", "gemma4_text") and "full_attention" in (c.get("layer_types") or ()):
            fields["global_head_dim"] = c.get("global_head_dim")
            fields["num_global_key_value_heads"] = c.get("num_global_key_value_heads")
            fields["attention_k_eq_v"] = bool(c.get("attention_k_eq_v"))
        of_layers = c.get("per_layer_config")
        if isinstance(of_layers, Mapping) and not fields.get("global_head_dim"):
            sizes = {each.get("head_dim") for each in of_layers.values() if isinstance(each, Mapping)} - {None}
            fields["global_head_dim"] = sizes.pop() if len(sizes) == 1 else None
        if kind in ("bert", "roberta", "electra", "vit", "opt", "gpt2"):
            fields["attention_bias"] = fields["mlp_bias"] = True
        if kind in ("qwen2", "qwen2_moe") and not c.get("use_sliding_window", False):
            fields["sliding_window"] = None
        if kind == "llama4_text" or kind == "llama4":
            fields["sliding_window"] = None
            fields["sliding_window_pattern"] = c.get("no_rope_layer_interval") or 4  # those layers attend fully
            fields["qk_norm"] = bool(c.get("use_qk_norm", True))
        kinds = c.get("layer_types")
        if isinstance(kinds, list) and "full_attention" in kinds and len(set(kinds)) > 1:
            period = kinds.index("full_attention") + 1
            if "linear_attention" in kinds:
                fields["full_attention_interval"] = fields.get("full_attention_interval") or period
            else:
                fields["sliding_window_pattern"] = period
                if any((k == "full_attention") != ((i + 1) % period == 0) for i, k in enumerate(kinds)):
                    why = "layer_types is not periodic; the first period is repeated"
                    self.assumed.append(("model.sliding_window_pattern", str(period), why))
        elif isinstance(kinds, list) and kinds and set(kinds) == {"full_attention"}:
            fields["sliding_window"] = None
        if not fields.get("sliding_window"):
            fields["sliding_window"] = None
            if not fields.get("attention_chunk_size"):
                fields["sliding_window_pattern"] = None

    def _mlp(self, fields: dict[str, Any]) -> None:
        hidden = fields.get("hidden_size")
        if fields.get("intermediate_size") is None and isinstance(hidden, int):
            ratio = self.config.get("expansion_ratio")
            ratio = ratio or self.config.get("intermediate_multiple_size")
            if ratio or self.model_type in _FOUR_TIMES:
                fields["intermediate_size"] = int((ratio or 4) * hidden)
        widths = fields.get("intermediate_size")
        if isinstance(widths, list) and widths and all(isinstance(w, int | float) for w in widths):
            fields["intermediate_size"] = round(sum(widths) / len(widths))
            self.assumed.append(
                ("model.intermediate_size", str(fields["intermediate_size"]), "mean of a list by layer")
            )

    def _mixture(self, fields: dict[str, Any]) -> None:
        c, kind = self.config, self.model_type
        for field in ("num_experts", "num_experts_per_tok", "n_shared_experts", "moe_intermediate_size"):
            by_layer = fields.get(field)
            if isinstance(by_layer, list) and by_layer and len({*map(str, by_layer)}) == 1:
                fields[field] = by_layer[0]
        if not fields.get("num_experts"):
            for field in (
                "num_experts",
                "num_experts_per_tok",
                "moe_intermediate_size",
                "n_shared_experts",
                "shared_expert_intermediate_size",
                "moe_layer_freq",
                "first_k_dense_replace",
            ):
                fields.pop(field, None)
            return
        if kind in ("llama4_text", "llama4"):
            fields["moe_intermediate_size"] = fields.get("intermediate_size")
            fields["n_shared_experts"] = 1
            fields["shared_expert_intermediate_size"] = fields.get("intermediate_size")
            fields["intermediate_size"] = c.get("intermediate_size_mlp") or fields.get("intermediate_size")
        if isinstance(dense := c.get("dense_intermediate_size"), int) and not fields.get("moe_intermediate_size"):
            fields["moe_intermediate_size"], fields["intermediate_size"] = fields.get("intermediate_size"), dense
        if kind in ("gemma4", "gemma4_text"):  # a dense network beside the experts of every layer
            fields["n_shared_experts"], fields["shared_expert_intermediate_size"] = 1, fields.get("intermediate_size")
        if kind.startswith("ernie4_5") and isinstance(widths := fields.get("moe_intermediate_size"), list) and widths:
            fields["moe_intermediate_size"] = widths[0]  # those of images are counted with the towers
        if kind == "hunyuan_v1_moe" and isinstance(fields.get("intermediate_size"), int):
            fields["n_shared_experts"] = fields.get("n_shared_experts") or 1
            fields["shared_expert_intermediate_size"] = fields["n_shared_experts"] * fields["intermediate_size"]
        if not fields.get("moe_intermediate_size") and fields.get("intermediate_size"):
            fields["moe_intermediate_size"] = fields["intermediate_size"]
        dense = _leading_dense_layers(c, fields.get("num_hidden_layers"))
        if dense is not None:
            fields["first_k_dense_replace"] = dense
        if isinstance(fields.get("moe_layer_freq"), list):
            flags = fields["moe_layer_freq"]
            fields["first_k_dense_replace"] = flags.index(1) if 1 in flags else len(flags)
            fields["moe_layer_freq"] = 1
        if fields.get("shared_expert_intermediate_size") and not fields.get("n_shared_experts"):
            fields["n_shared_experts"] = 1
        shared, width = fields.get("n_shared_experts"), fields.get("moe_intermediate_size")
        if shared and width and not fields.get("shared_expert_intermediate_size"):
            fields["shared_expert_intermediate_size"] = shared * width
        if not fields.get("num_experts_per_tok"):
            fields["num_experts_per_tok"] = min(2, fields["num_experts"])
            self.assumed.append(
                ("model.num_experts_per_tok", str(fields["num_experts_per_tok"]), "not stated by the config")
            )

    def _family(self, fields: dict[str, Any]) -> None:
        c = self.config
        if fields.get("kv_lora_rank"):
            fields["family"] = "mla_moe"
            fields.pop("head_dim", None)
            fields["num_key_value_heads"] = fields.get("num_attention_heads")
        elif "family" not in fields:
            if fields.get("hybrid_override_pattern") or fields.get("full_attention_interval"):
                fields["family"] = "hybrid"
            elif c.get("is_encoder_decoder"):
                fields["family"] = "encoder_decoder"
            else:
                fields["family"] = "moe" if fields.get("num_experts") else "dense"
        if fields["family"] == "encoder_decoder":
            encoder = c.get("num_layers") or c.get("encoder_layers") or fields.get("num_hidden_layers")
            decoder = c.get("num_decoder_layers") or c.get("decoder_layers") or encoder
            if isinstance(encoder, int) and isinstance(decoder, int):
                fields["num_encoder_layers"], fields["num_decoder_layers"] = encoder, decoder
                fields["num_hidden_layers"] = encoder + decoder
        if fields["family"] == "vit":
            fields["vocab_size"] = 1
            labels = c.get("id2label")
            fields["num_labels"] = c.get("num_labels") or (len(labels) if isinstance(labels, Mapping) else 0)
        else:
            for field in ("image_size", "patch_size", "num_channels"):
                fields.pop(field, None)

    def _towers(self, fields: dict[str, Any]) -> None:
        """Weights of vision and audio towers, or an assumption that says that they are left out."""
        hidden = fields.get("hidden_size")
        if not isinstance(hidden, int) or isinstance(hidden, bool):
            return
        towers = counted_towers(self.outer, hidden)
        fields["tower_parameters"] = towers.count
        if towers.why:
            self.assumed.append(("model.tower_parameters", str(towers.count), towers.why))
        if self.outer.get("model_type") == "moss_transcribe_diarize":
            fields["tie_word_embeddings"] = bool(self.outer.get("tie_word_embeddings", True))

    def _check_required(self, fields: dict[str, Any]) -> None:
        problems = ProblemList(prefix="model")
        for field in REQUIRED:
            value = fields.get(field)
            if value is None:
                spellings = ", ".join(SPELLINGS[field])
                problems.add(field, UNSET, f"missing from the config (looked for {spellings})")
            elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
                problems.add(field, value, "must be a whole number above 0")
        only_mixers = fields.get("hybrid_override_pattern") and "-" not in str(fields["hybrid_override_pattern"])
        if fields.get("intermediate_size") is None and not only_mixers and not fields.get("moe_intermediate_size"):
            problems.add(
                "intermediate_size",
                UNSET,
                f"missing from the config (looked for {', '.join(SPELLINGS['intermediate_size'])})",
            )
        if problems:
            raise BadInput(replace(p, file=self.file) for p in problems)
