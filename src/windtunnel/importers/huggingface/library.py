"""Parameters of a Hugging Face configuration as the library transformers counts them, where it is installed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windtunnel.errors import BadInput, ProblemList


def count_with_transformers(config: Mapping[str, Any], file: str) -> int:
    """Weights of the model that transformers builds from a configuration, on the meta device.

    No weights are made, no code of the model's repository is run and nothing is downloaded.

    Args:
        config: the parsed `config.json`.
        file: its name, for messages.

    Raises:
        BadInput: transformers or torch is not installed, does not know the type, or cannot build it.
    """
    problems = ProblemList()
    try:
        import torch
        import transformers
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    except ImportError as error:
        rule = f"needs the extra oracle (pip install 'windtunnel[oracle]'): {error.name} is not installed"
        problems.add("--with", "transformers", rule)
        raise BadInput(problems) from None
    kind = str(config.get("model_type") or "")
    if kind not in CONFIG_MAPPING:
        rule = f"is no type that transformers {transformers.__version__} knows"
        problems.add("model.model_type", kind or "(none)", rule)
        raise BadInput(replace(p, file=file) for p in problems)
    transformers.logging.set_verbosity_error()
    try:
        with warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            model = _class_of(transformers, config)(CONFIG_MAPPING[kind].from_dict(dict(config)))
    except Exception as error:  # the library's own checks and code of hundreds of types raise whatever they like
        rule = f"transformers {transformers.__version__} cannot build it: {type(error).__name__}: {_short(error)}"
        problems.add("model", kind, rule)
        raise BadInput(replace(p, file=file) for p in problems) from None
    return sum(parameter.numel() for parameter in model.parameters())


def _class_of(transformers: Any, config: Mapping[str, Any]) -> Any:
    """What makes the model: the class that the file names, or the library's choice for causal language models."""
    named = config.get("architectures")
    for name in named if isinstance(named, list) else []:
        if isinstance(name, str) and hasattr(transformers, name):
            return getattr(transformers, name)
    return transformers.AutoModelForCausalLM.from_config


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:160]
