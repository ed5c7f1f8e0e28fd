"""Every causal-LM type of the installed transformers, built on the meta device and counted (extra `oracle`)."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from windtunnel.catalog.parameters import count_parameters
from windtunnel.errors import BadInput
from windtunnel.importers.hf_config import read_hf_config
from windtunnel.importers.huggingface.known_types import REFUSED

torch = pytest.importorskip("torch", reason="needs the extra oracle: torch")
transformers = pytest.importorskip("transformers", reason="needs the extra oracle: transformers")

UNLIKE = {
    "longcat_flash": "transformers keeps weights for zero experts; published checkpoints, like this count, have none",
}
"""Types whose class in transformers has other weights than the models that are published."""


WITHOUT_TOWERS = {"mllama"}
"""Types whose causal-LM class is the text part of the model that their configuration describes."""


def _counted(kind: str) -> tuple[dict[str, Any], int] | None:
    """Default configuration and weights of a type, or None where the library cannot build it."""
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    try:
        config = CONFIG_MAPPING[kind]()
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except Exception:  # defaults of some types do not build: nothing to compare with
        return None
    return json.loads(config.to_json_string(use_diff=False)), sum(p.numel() for p in model.parameters())


@pytest.mark.slow
def test_every_type_is_counted_or_refused() -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    transformers.logging.set_verbosity_error()
    compared, right, wrong, refused = 0, 0, {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            found = None if kind in UNLIKE else _counted(kind)
            if found is None:
                continue
            compared += 1
            config, weights = found
            try:
                model = read_hf_config(config).model
                counted = count_parameters(model).total
                counted -= model.tower_parameters if kind in WITHOUT_TOWERS else 0
            except BadInput as error:
                refused[kind] = str(error)
                continue
            if abs(counted / weights - 1) <= 0.01:
                right += 1
            else:
                wrong[kind] = counted / weights - 1
    assert not wrong
    assert all(refused.values())
    assert right >= 0.95 * compared, refused


OTHERWISE_COMPUTED = {
    "cpmant": "puts 32 prompt tokens in front of the text",
    "llama4": "multiplies every token with every expert and drops what was not chosen",
    "llama4_text": "multiplies every token with every expert and drops what was not chosen",
    "mllama": "skips its layers with cross attention while there is no image",
    "prophetnet": "runs a second stream that predicts further tokens",
    "xlnet": "scores relative positions over twice the tokens",
}
"""Types whose Python in transformers computes other products than those that are priced, each with the reason."""


@pytest.mark.slow
def test_products_of_every_type_are_those_that_pytorch_counts() -> None:
    """Products with weights and of attention within 2 %; scans are written out in Python and are left out."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    from transformers_flop import counted, expected

    transformers.logging.set_verbosity_error()
    compared, wrong = 0, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            if kind in OTHERWISE_COMPUTED or kind in REFUSED:
                continue
            found = counted(kind)
            if found is None:
                continue
            config, flops = found
            try:
                own = expected(read_hf_config(config).model)
            except BadInput:  # said by the test of parameters
                continue
            compared += 1
            measured = flops.products + (0.0 if own.scans else flops.scans)
            if abs(own.products / measured - 1) > 0.02:
                wrong[kind] = own.products / measured - 1
    assert not wrong
    assert compared >= 150
