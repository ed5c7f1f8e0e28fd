"""Names of models, devices, clusters and software in a question, by the resolvers that every other input has."""

from __future__ import annotations

import re
from functools import cache, partial
from typing import Any, get_args

from windtunnel.catalog import store
from windtunnel.questions.patterns import Placeholder
from windtunnel.questions.tokens import Token, glued
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.defaults import plain
from windtunnel.stacks.names import framework_named, value_named
from windtunnel.stacks.weight_formats import format_named

_SIZE = re.compile(r"\d+(?:\.\d+)?[bm]")
_ALIKE = 0.6
"""Share of equal letters, of as many as were written, from which a name of the catalogue may be what was meant."""
_MOST_TOKENS = 16
"""Of a name: `Qwen3-Coder-480B-A35B-Instruct` has twelve."""
_FORMAT_TOKENS = 8
"""Of a format: `fp8-per-channel-per-token` has five, `q4_k_m` four."""
_NO_NAME = re.compile(
    r"(nodes?|servers?|gpus?|chips?|cards?|pods?|clusters?|boxes|racks?|systems?"
    r"|(nv|mx)?fp(4|8|16|32)|bf16|int[48]|q[48]|awq|gptq|w4a16|w4a8|w8a8)(?![^\W_])"
)
"""Words that the catalogue leaves out of a name and that mean something in a question: nodes, formats of numbers."""
_NO_SOFTWARE = frozenset({"zero", "unknown", "generic", "fsdp", "bridge", "composer", "none"})
"""Spellings of software that mean something else in a question."""
_ENGINES = {
    "vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "trt llm": "trtllm", "tensorrt llm": "trtllm",
    "tensorrt": "trtllm", "lmdeploy": "lmdeploy",
}  # fmt: skip
_OPTIMIZERS = frozenset(get_args(TrainingSpec.model_fields["optimizer"].annotation)) - {"none", "momentum"}
"""Momentum is no optimizer's name in a question."""


def placeholders(words: str) -> dict[str, Placeholder]:
    """What reads names in one question, by the kind of placeholder."""
    reads = {
        "model": partial(_catalogued, "models"),
        "device": partial(_catalogued, "devices"),
        "plural": _plural,
        "cluster": partial(_catalogued, "clusters"),
        "framework": _framework,
        "engine": lambda name: _ENGINES.get(_plain(name)),
        "optimizer": _optimizer,
    }
    found: dict[str, Placeholder] = {kind: partial(_longest, words, read) for kind, read in reads.items()}
    return found | {"path": _path, "format": partial(_longest, words, _format, most=_FORMAT_TOKENS, stops=False)}


def _format(name: str) -> str | None:
    return format_named(name, "questions")


def _longest(
    words: str, read: Any, tokens: tuple[Token, ...], at: int, *, most: int = _MOST_TOKENS, stops: bool = True
) -> tuple[str, int] | None:
    """The longest name that begins at a token, and the place after it."""
    if at >= len(tokens) or not tokens[at].solid or glued(tokens, at):
        return None
    lower = words.lower()
    stop = at
    while stop < min(len(tokens), at + most) and not (stops and _NO_NAME.match(lower, tokens[stop].start)):
        stop += 1
    for end in range(stop, at, -1):
        if tokens[end - 1].solid and not glued(tokens, end):
            found = read(words[tokens[at].start : tokens[end - 1].end])
            if found is not None:
                return found, end
    return None


def _path(tokens: tuple[Token, ...], at: int) -> tuple[str, int] | None:
    return (tokens[at].text, at + 1) if at < len(tokens) and tokens[at].kind == "path" else None


def _plain(name: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", name.lower()))


@cache
def _catalogued(kind: str, name: str) -> str | None:
    """Display name of a model, id of a device or cluster; the s of a plural is left out."""
    if " " in name.partition("/")[0] and "/" in name:  # no organisation has two words
        return None
    for spelling in dict.fromkeys((name, name.removesuffix("s"))):
        if any(letter.isalpha() or kind == "devices" for letter in spelling) and len(spelling) > 1:
            stem = store.stem_of(kind, spelling)
            if stem is not None:
                return store.headings(kind)[stem][0] if kind == "models" else stem
    if kind == "devices" and name[-2:].isdigit() and len(name) > 4:  # `A100-80`
        return store.stem_of("devices", f"{name}GB") if re.search(r"[- ]\d\d$", name) else None
    return _without_numbers(name) if kind == "models" else None


@cache
def _plural(name: str) -> str | None:
    """Id of a device whose name has the s of a plural: `h100s`, not `l40s`."""
    single = name[:-1] if name[-1:] in "sS" else ""
    return store.stem_of("devices", single) if len(single) > 1 and store.stem_of("devices", name) is None else None


def _parts(name: str) -> tuple[str, ...]:
    """A name as runs of letters and numbers, a size with its letter: `olmo`, `2`, `32b`."""
    return tuple(re.findall(r"\d+(?:\.\d+)?[bm](?![a-z])|\d+(?:\.\d+)?|[a-z]+", name.rpartition("/")[2].lower()))


@cache
def _by_first_word() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    table: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for spelling in store.spellings("models"):
        parts = _parts(spelling)
        stem = store.stem_of("models", spelling)
        if parts and stem is not None:
            table.setdefault(parts[0], []).append((parts, stem))
    return table


def _without_numbers(name: str) -> str | None:
    """The only model of this family and size, where a question leaves its version or date out: `olmo 2 32b`."""
    parts = _parts(name)
    if len(parts) == 3 and (moved := _in_order(parts)) is not None:
        return moved
    if len(parts) < 2 or not _SIZE.fullmatch(parts[-1]) or not parts[0].isalpha():
        return None
    found = {stem for own, stem in _by_first_word().get(parts[0], ()) if _left_out(parts, own)}
    return store.headings("models")[found.pop()][0] if len(found) == 1 else None


def _in_order(parts: tuple[str, ...]) -> str | None:
    """The model of three parts in another order: `llama 70b 3.1`, `405b llama 3.1`; and `phi 4 14b`, with its size."""
    sizes = [part for part in parts if _SIZE.fullmatch(part)]
    numbers = [part for part in parts if part[0].isdigit() and part not in sizes]
    families = [part for part in parts if part.isalpha()]
    if len(sizes) != 1 or len(numbers) != 1 or len(families) != 1:
        return None
    if parts[-1] != sizes[0]:
        stem = store.stem_of("models", f"{families[0]}-{numbers[0]}-{sizes[0]}")
    else:
        stem = store.stem_of("models", f"{families[0]}-{numbers[0]}")
        if stem is not None and not _has_size(store.headings("models")[stem][0], sizes[0]):
            return None
    return None if stem is None else store.headings("models")[stem][0]


def _has_size(model: str, size: str) -> bool:
    """Whether a model has about so many parameters."""
    from windtunnel import catalog
    from windtunnel.catalog.parameters import count_parameters

    said = float(size[:-1]) * (1e9 if size.endswith("b") else 1e6)
    return 0.85 * said <= count_parameters(catalog.model(model)).total <= 1.2 * said


def _left_out(parts: tuple[str, ...], own: tuple[str, ...]) -> bool:
    """Whether a name is these parts in their order and, apart from them, numbers without a size."""
    left = list(parts)
    for part in own:
        if left and part == left[0]:
            left.pop(0)
        elif not part[0].isdigit() or _SIZE.fullmatch(part):
            return False
    return not left


@cache
def _framework(name: str) -> str | None:
    return None if _plain(name) in _NO_SOFTWARE else framework_named(name)


def _optimizer(name: str) -> str | None:
    found = value_named("optimizer", plain(name))
    return found if found in _OPTIMIZERS else None


def is_size(text: str) -> bool:
    """Whether a text is a number of parameters, such as `8b`."""
    return _SIZE.fullmatch(text.lower()) is not None


def of_size(size: str) -> list[str]:
    """Up to three models of the catalogue that have this size in their name, the shortest names first."""
    named = {name for name, _ in store.headings("models").values() if size.lower() in _parts(name)}
    return sorted(named, key=lambda name: (len(name), name))[:3]


def nearest(text: str) -> str | None:
    """The model or device of the catalogue that is closest to a spelling that it does not know."""
    found = [store.unknown(kind, text).problems[0].nearest for kind in ("models", "devices")]
    named = [name for name in found if name is not None]
    if not named:
        return None
    import difflib

    like = store.key(re.sub(r"^\d+ ", "", text))

    def share(name: str) -> float:
        start = store.key(name.rsplit("/", 1)[-1])[: len(like)]
        return difflib.SequenceMatcher(None, like, start).ratio()

    alike = {name: share(name) for name in named}
    best = max(named, key=lambda n: alike[n])
    return best if alike[best] >= _ALIKE else None
