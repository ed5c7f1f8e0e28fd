"""What readers of families share: fields of a configuration with its problems, and layers put together to a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from pydantic import ValidationError

from windtunnel.errors import UNSET, BadInput, Problem, ProblemList
from windtunnel.scenarios.explain import explain
from windtunnel.specs.layers import Layer, SubBlock
from windtunnel.specs.model import ModelSpec, Provenance

Blocks = tuple[SubBlock, ...]


class Config:
    """Fields of a `config.json`; what is missing is collected and raised together.

    Args:
        fields: the parsed file, or the part of it that describes one network.
        name: name of the model.
    """

    def __init__(self, fields: Mapping[str, Any], name: str) -> None:
        self.fields = fields
        self.name = name
        self.problems = ProblemList(prefix="model")
        self.assumed: list[tuple[str, str, str]] = []

    def need(self, *names: str) -> int:
        """A whole number above 0 under the first name that the file has; 1 where it is missing, which is a problem."""
        for name in names:
            value = self.fields.get(name)
            if value is None:
                continue
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
            self.problems.add(name, value, "must be a whole number above 0")
            return 1
        self.problems.add(names[0], UNSET, f"missing from the config (looked for {', '.join(names)})")
        return 1

    def number(self, name: str, default: int) -> int:
        """A whole number, or the library's default where the file leaves it out.

        Anything else is a problem, and so is 0 in the place of a default above it.
        """
        value = self.fields.get(name)
        if value is None or isinstance(value, bool):
            return default
        if isinstance(value, int) and value >= min(default, 1):
            return value
        self.problems.add(name, value, f"must be a whole number from {max(min(default, 1), 0)}")
        return default

    def flag(self, name: str, default: bool = False) -> bool:
        """A switch, or the library's default where the file leaves it out."""
        value = self.fields.get(name)
        return default if value is None else bool(value)

    def kinds(self, name: str, depth: int, default: Iterable[str] | None = None) -> list[str]:
        """A list with one word for each of `depth` layers; a missing one without default is a problem."""
        value = self.fields.get(name)
        if not isinstance(value, list) and default is not None:
            value = list(default)
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            self.problems.add(name, UNSET if value is None else value, "must list one kind for each layer")
            return [""] * depth
        if len(value) != depth:
            self.problems.add(name, len(value), f"must list one kind for each of the {depth} layers")
            return [""] * depth
        return value

    def part(self, *names: str) -> Config:
        """A nested configuration; an empty one where none of the names is there."""
        inner: Mapping[str, Any] = next((self.fields[n] for n in names if isinstance(self.fields.get(n), Mapping)), {})
        part = Config(inner, self.name)
        part.problems, part.assumed = self.problems, self.assumed
        return part

    def compose(
        self,
        layers: Iterable[Blocks],
        *,
        hidden: int,
        vocab: int,
        tied: bool,
        inputs: int | None = None,
        outputs: int | None = None,
        **fields: Any,
    ) -> ModelSpec:
        """The model of these layers.

        Args:
            layers: sub-blocks of each layer, norms included.
            hidden: width of the residual stream.
            vocab: tokens of the vocabulary.
            tied: whether the output head is the input table.
            inputs: weights in front of the layers; absent means a table of tokens.
            outputs: weights behind the layers; absent means a norm and, unless tied, a head.
            fields: further fields of `ModelSpec`.

        Raises:
            BadInput: fields of the file are missing or of the wrong kind.
        """
        if self.problems:
            raise BadInput(self.problems)
        every = list(layers)
        if not every:
            raise BadInput(Problem("model.num_hidden_layers", "must be above 0: the file lists no layer", 0))
        blocks = [block for layer in every for block in layer]
        attention = next((b for b in blocks if b.kind == "attention"), None)
        mixture = next((b for b in blocks if b.kind == "mixture"), None)
        dense = next((b for b in blocks if b.kind == "mlp"), None)
        mixer = next((b for b in blocks if b.heads), None)
        described: dict[str, Any] = {"num_attention_heads": 1, "head_dim": hidden}
        if mixer is not None:
            described = {"num_attention_heads": mixer.heads, "head_dim": mixer.d_v}
        if attention is not None:
            kv_heads = attention.kv_heads
            described = {"num_attention_heads": attention.heads, "head_dim": attention.d_qk}
            described["num_key_value_heads"] = kv_heads if attention.heads % kv_heads == 0 else attention.heads
        if mixture is not None:
            described |= {
                "num_experts": mixture.experts,
                "num_experts_per_tok": mixture.experts_per_token,
                "moe_intermediate_size": mixture.expert_rows[0],
            }
        if dense is not None:
            described |= {"intermediate_size": dense.rows[-1][0], "gated_mlp": dense.gated}
        described = (
            {
                "name": self.name,
                "family": "composed",
                "hidden_size": hidden,
                "vocab_size": vocab,
                "num_hidden_layers": len(every),
                "layers": tuple(Layer(blocks=key, repeat=len(list(run))) for key, run in groupby(every)),
                "tie_word_embeddings": tied,
                "input_parameters": inputs,
                "output_parameters": outputs,
                "provenance": Provenance(source=f"config.json of {self.name}"),
            }
            | described
            | fields
        )
        try:
            return ModelSpec(**described)
        except ValidationError as error:
            own = [problem.under("model") for problem in explain(ModelSpec, described, error)]
            raise BadInput([*self.problems, *own]) from None
