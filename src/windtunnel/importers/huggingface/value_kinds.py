"""What kind of value the fields of a `config.json` may hold, checked before anything computes with them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from windtunnel.errors import Problem

MOST = 10**9
"""Largest size or count that a network is described with."""
_PARTS = re.compile(r".*_config$|^(encoder|decoder|thinker_config|linear_attn_config)$")
"""Names of fields that hold a network, or a part of one, of their own."""
_OTHER_PARTS = re.compile(
    r"quantization_config|rope_\w+|generation_config|compression_config|pruned_heads|id2label|label2id|task_specific_params|auto_map"
)
"""Parts without dimensions of a network; every file that `PretrainedConfig.to_dict` writes has some of them."""
_COUNTED = re.compile(
    r"(^|_)(size|sizes|dim|dims|width|hidden|layers?|heads?|rank|experts?|embd|inner|ffn|ff|kv|model|state|positions?|"
    r"embeddings|channels|channel|window|kernel|expand|period|interval|offset|freq|multiple|topk|tok|token|pattern|"
    r"factor|multiplier|ratio|groups?|blocks|chunk|bins|conv|length|len|step|replace|indices|idxs|indexes|list)$"
)
"""Last words of names that are sizes, counts, or lists of them."""
_KINDS = re.compile(r"(^|_)(layer_types|block_types?|layers_block_type|layer_kinds)$")
"""Names that list one word a layer."""


def value_problems(config: Mapping[str, Any], above: str = "") -> Iterator[Problem]:
    """Problems of values that cannot be what their names say: a mapping for a count, NaN, a nested list of layer kinds.

    Args:
        config: the parsed file, or a part of it.
        above: path of the part with a dot at its end.
    """
    for name, value in config.items():
        field = f"{above}{name}"
        if name == "model_type" and not isinstance(value, str | None):
            yield Problem(field, "must be text", value)
        if value is None or value == {} or _OTHER_PARTS.fullmatch(name):
            continue
        if _PARTS.match(name):
            if isinstance(value, Mapping):
                yield from value_problems(value, f"{field}.")
            elif name.endswith("_config"):
                yield Problem(field, "must be a mapping of fields to values", value)
        elif _KINDS.search(name):
            if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
                yield Problem(field, "must list one word for each layer", value)
        elif _COUNTED.search(name):
            yield from _size_problems(field, value)


def _size_problems(field: str, value: Any) -> Iterator[Problem]:
    """Sizes are numbers within reason, or lists of these; words stand where a family names patterns."""
    values = _leaves(value)
    if any(isinstance(one, Mapping) for one in values):
        yield Problem(field, "must be a number, or a list of numbers", value)
    elif any(isinstance(one, float) and not math.isfinite(one) for one in values):
        yield Problem(field, "must be a finite number", value)
    elif any(isinstance(one, int | float) and abs(one) > MOST for one in values):
        yield Problem(field, f"must be at most {MOST}", value)


def _leaves(value: Any) -> list[Any]:
    """Entries of lists in lists."""
    found, left = [], [value]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += one
        else:
            found.append(one)
    return found
