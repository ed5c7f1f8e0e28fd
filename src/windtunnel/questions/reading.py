"""A question's words as fields: the phrases that cover most of it, and a refusal of every word that none covers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from windtunnel.data_files import read_yaml
from windtunnel.errors import BadInput, Problem
from windtunnel.questions.amounts import AMOUNTS, NUMBERS
from windtunnel.questions.names import is_size, nearest, of_size, placeholders
from windtunnel.questions.patterns import Choice, Piece, Placeholder, Values, Word, matches, parsed
from windtunnel.questions.tokens import SILENT, Token, glued, tokens_of
from windtunnel.stacks.weight_formats import words as format_words

MOST_CHARACTERS = 1000
_LAUNCH = re.compile(
    r"(?i)^\s*(vllm\s+serve|torchrun|trtllm-\w+|deepspeed\s|accelerate\s+launch|(sudo\s+)?docker\s+run|(ba)?sh\s|srun\s"
    r"|sbatch\s|text-generation-launcher|([A-Z_]+=\S+\s+)*python3?\s+(-m\s+)?[\w./]+)"
)
"""Beginnings of commands that start training or a server."""
_PASTED = "this is a launch command, not a question: `windtunnel import '…'` reads it"
LONG = 14
"""Words of a question from which on it is a sentence, in which plain words may stand that are not read."""
EXAMPLES = (
    "llama3-70b on 64 h100",
    "serve llama3-8b on 2 a100 at 20 requests/s of 3k/300",
    "lora of qwen2.5 7b on a 4090",
)
_LIST = "wants", "perhaps", "task", "versus", "compare"
"""Fields that may be set several times."""
_COMPARED = (
    "device", "single", "count", "devicememory", "versus", "compare", "format", "framework", "engine", "model", "tp",
    "pp", "zero", "nodes",
)  # fmt: skip
"""Fields that a comparison may set several times."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What phrases mean."""

    sets: Mapping[str, Any]
    """Field → a value, or `{placeholder}`."""
    phrases: tuple[tuple[Piece, ...], ...]
    times: float = 1.0


@dataclass(frozen=True, slots=True)
class Grammar:
    """All rules, and words without a meaning of their own."""

    rules: tuple[Rule, ...]
    idle: frozenset[str]
    context: frozenset[str]
    """Words about the person who asks, which change no field; an answer lists them."""
    turning: frozenset[str]
    """Words that turn a meaning around, and are never passed over."""

    @property
    def vocabulary(self) -> frozenset[str]:
        """Words that stand in phrases."""
        return frozenset(_words_in(tuple(phrase for rule in self.rules for phrase in rule.phrases)))


def _words_in(ways: tuple[tuple[Piece, ...], ...]) -> Iterator[str]:
    for way in ways:
        for piece in way:
            if isinstance(piece, Word):
                yield piece.text
            elif hasattr(piece, "ways"):
                yield from _words_in(piece.ways)


@cache
def grammar() -> Grammar:
    """The grammar that comes with the package."""
    data = read_yaml("questions/grammar.yaml")
    rules = []
    for one in data["rules"]:
        phrases = tuple(parsed(_expanded(phrase, data["short"])) for phrase in one["phrases"])
        rules.append(Rule(one["sets"], phrases, one.get("times", 1.0)))
    return Grammar(
        tuple(rules),
        frozenset(data["idle"].split()),
        frozenset(data["context"].split()),
        frozenset(data["turning"].split()) | NUMBERS,
    )


def _expanded(phrase: str, short: Mapping[str, str]) -> str:
    """A phrase with what stands behind each `$name`."""
    return re.sub(r"\$(\w+)", lambda found: short[found[1]], phrase)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A part of the question that a rule covers."""

    start: int
    """Place of its first token."""
    end: int
    sets: Mapping[str, Any]
    text: str
    """As it was written."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a question."""

    words: str
    phrases: tuple[Phrase, ...]
    unused: tuple[str, ...] = ()
    """Words about the person who asks, which changed no field."""

    def all(self, field: str) -> list[Any]:
        """Every value that a field was set to, in order, equal ones once."""
        found = [phrase.sets[field] for phrase in self.phrases if field in phrase.sets]
        return [value for at, value in enumerate(found) if value not in found[:at]]

    def get(self, field: str, default: Any = None) -> Any:
        """The value of a field."""
        return next(iter(self.all(field)), default)

    def text(self, field: str) -> str:
        """The words that set a field; the empty text where none did."""
        return next((phrase.text for phrase in self.phrases if field in phrase.sets), "")

    def without(self, *fields: str) -> Reading:
        """The reading without the phrases that set one of these fields."""
        kept = (one for one in self.phrases if not any(name in one.sets for name in fields))
        return replace(self, phrases=tuple(kept))

    def having(self, **fields: Any) -> Reading:
        """The reading with more fields, as if they had been said."""
        return replace(self, phrases=(*self.phrases, Phrase(0, 0, fields, "")))

    def __contains__(self, field: str) -> bool:
        return any(field in phrase.sets for phrase in self.phrases)


def read(words: str) -> Reading:
    """The fields of a question.

    Raises:
        BadInput: words that no phrase covers, each with what is near to it; a field that is given two values.
    """
    if len(words) > MOST_CHARACTERS and _LAUNCH.search(words):
        raise BadInput(_PASTED)
    if not words.strip() or len(words) > MOST_CHARACTERS:
        raise BadInput(f"a question has 1 to {MOST_CHARACTERS} characters; for example: {EXAMPLES[0]}")
    tokens = tuple(token for token in tokens_of(words) if token.text not in SILENT)
    found, unread = _covered(words, tokens)
    found = _with_the_best(found)
    passed = _passed_over(tokens, unread)
    problems = [*_unread(words, tokens, [at for at in unread if at not in passed]), *_twice(found)]
    if problems and _LAUNCH.search(words):
        raise BadInput(_PASTED)
    if problems:
        raise BadInput([*problems, Problem("", f"questions that are read: {'; '.join(EXAMPLES)}")])
    return Reading(words, tuple(found), _unused(tokens, found, passed))


def _passed_over(tokens: tuple[Token, ...], unread: list[int]) -> frozenset[int]:
    """Places of unread words that a long sentence may have: plain words that turn no meaning around.

    In a short question an unread word is refused, since it was most likely meant to be read; so is everywhere what is
    near to a word that is read, what turns a meaning around, and what touches a number that was not read.
    """
    if sum(token.kind == "word" and len(token.text) > 1 for token in tokens) < LONG:
        return frozenset()
    left = set(unread)

    def plain(at: int) -> bool:
        token = tokens[at]
        beside = [tokens[near] for near in (at - 1, at + 1) if near in left]
        if token.kind != "word" or glued(tokens, at) or glued(tokens, at + 1):
            return False
        return token.text not in grammar().turning and not any(one.kind == "number" for one in beside)

    return frozenset(at for at in unread if plain(at) and not _read_elsewhere(tokens[at].text))


def _read_elsewhere(text: str) -> bool:
    """Whether a word, or one that it is nearly, means something in another place of a question."""
    if text in grammar().vocabulary:
        return text in _deciding_words()
    near = difflib.get_close_matches(text, _long_words(), n=1, cutoff=0.88) if len(text) > 5 else []
    return bool(near) and near[0].removesuffix("s") != text.removesuffix("s")


@cache
def _deciding_words() -> frozenset[str]:
    """Words of phrases that set a field by themselves, without an amount or a name: `lora`, `selective`, `offline`."""
    rules = (rule for rule in grammar().rules if rule.sets and "wants" not in rule.sets)
    alone = (rule for rule in rules if not any(str(value).startswith("{") for value in rule.sets.values()))
    words = _words_in(tuple(phrase for rule in alone for phrase in rule.phrases))
    return frozenset(word for word in words if len(word) > 2) - grammar().idle - grammar().context


@cache
def _long_words() -> list[str]:
    """Words of the grammar that a slip of the pen may have been meant for."""
    return [word for word in grammar().vocabulary | set(format_words("questions")) if len(word) > 3]


def _unused(tokens: tuple[Token, ...], found: list[Phrase], passed: frozenset[int]) -> tuple[str, ...]:
    """Words that stand in no phrase and changed nothing, once each."""
    covered = {at for phrase in found for at in range(phrase.start, phrase.end)}
    context = grammar().context
    left = (t.text for at, t in enumerate(tokens) if at not in covered and (t.text in context or at in passed))
    return tuple(dict.fromkeys(left))


def _with_the_best(found: list[Phrase]) -> list[Phrase]:
    """The `best plan` is the fastest, unless other words say by what it is chosen."""
    named = any("best" in phrase.sets for phrase in found)
    fastest: Mapping[str, Any] = {} if named else {"best": "time"}
    return [replace(phrase, sets=fastest) if "optimal" in phrase.sets else phrase for phrase in found]


def _covered(words: str, tokens: tuple[Token, ...]) -> tuple[list[Phrase], list[int]]:
    """The phrases that leave fewest words unread and, of those, are fewest; and the places of unread words."""
    kinds = {name: _once(read) for name, read in {**AMOUNTS, **placeholders(words)}.items()}
    context = grammar().context
    idle = grammar().idle | context
    best: list[tuple[int, int, Phrase | None]] = [(0, 0, None)] * (len(tokens) + 1)
    for at in range(len(tokens) - 1, -1, -1):
        unread, parts, _ = best[at + 1]
        alone = 2 if tokens[at].text in context else 1  # a phrase of one word goes first
        best[at] = (unread + (tokens[at].text not in idle or glued(tokens, at)), parts + alone, None)
        if glued(tokens, at):
            continue
        for phrase in _phrases_at(words, tokens, at, kinds):
            unread, parts, _ = best[phrase.end]
            if (unread, parts + 1) < best[at][:2]:
                best[at] = unread, parts + 1, phrase
    found: list[Phrase] = []
    left: list[int] = []
    at = 0
    while at < len(tokens):
        taken = best[at][2]
        if taken is not None:
            found.append(taken)
        elif tokens[at].text not in idle or glued(tokens, at):
            left.append(at)
        at = at + 1 if taken is None else taken.end
    return found, left


def _phrases_at(words: str, tokens: tuple[Token, ...], at: int, kinds: Mapping[str, Placeholder]) -> Iterator[Phrase]:
    for rule, pieces in _beginning_with(tokens[at].text):
        for end, values in matches(pieces, tokens, at, kinds):
            if end > at and not glued(tokens, end):
                yield Phrase(at, end, _filled(rule, values), words[tokens[at].start : tokens[end - 1].end])


@lru_cache(maxsize=4096)
def _beginning_with(word: str) -> tuple[tuple[Rule, tuple[Piece, ...]], ...]:
    """The phrases that may begin with a word, in their order: those with the word there, or a placeholder."""
    every = ((rule, pieces) for rule in grammar().rules for pieces in rule.phrases)
    return tuple((rule, pieces) for rule, pieces in every if word in (first := _firsts(pieces)) or None in first)


@cache
def _firsts(pieces: tuple[Piece, ...]) -> frozenset[str | None]:
    """Words that may stand first in a phrase; None for a placeholder, or where all of the phrase may be absent."""
    found: set[str | None] = set()
    for piece in pieces:
        if isinstance(piece, Word):
            return frozenset({*found, piece.text})
        if not isinstance(piece, Choice):
            return frozenset({*found, None})
        ways = [_firsts(way) for way in piece.ways if way]
        found = found.union(*ways)
        if all(piece.ways):
            return frozenset(found)
    return frozenset({*found, None})


def _once(read: Placeholder) -> Placeholder:
    """A placeholder that reads each place of one question once."""
    known: dict[int, tuple[Any, int] | None] = {}

    def reading(tokens: tuple[Token, ...], at: int) -> tuple[Any, int] | None:
        if at not in known:
            known[at] = read(tokens, at)
        return known[at]

    return reading


def _filled(rule: Rule, values: Values) -> dict[str, Any]:
    """The fields that a rule sets; where it has `times`, numbers are multiplied by it."""
    filled = {}
    for field, value in rule.sets.items():
        if isinstance(value, str) and value.startswith("{"):
            value = values[value[1:-1]] if value[1:-1] in values else None
            value = value * rule.times if isinstance(value, float) else value
        filled[field] = value
    return filled


def _unread(words: str, tokens: tuple[Token, ...], places: list[int]) -> Iterator[Problem]:
    """A problem for each run of words that were not read, with the nearest reading."""
    at = 0
    while at < len(places):
        end = at + 1
        while end < len(places) and places[end] == places[end - 1] + 1:
            end += 1
        first, last = tokens[places[at]], tokens[places[end - 1]]
        text = words[first.start : last.end]
        if last.kind == "minus":
            text += words[last.end :].split(maxsplit=1)[0]
        if is_size(text):
            like = ", ".join(of_size(text)) or "llama3-8b"
            yield Problem("", f"is a size without a family; models of it: {like}", text)
            at = end
            continue
        near = _near(text)
        yield Problem("", "was not read" if near or len(text.split()) > 1 else "was not read here", text, near)
        at = end


def _near(text: str) -> str | None:
    """The nearest word of the grammar, or name of the catalogue."""
    known = [word for word in grammar().vocabulary | grammar().idle | set(format_words("questions")) if len(word) > 2]
    if text.lower() in known:
        return None
    close = difflib.get_close_matches(text.lower(), known, n=1, cutoff=0.75)
    return close[0] if close else nearest(text)


def _twice(found: list[Phrase]) -> Iterator[Problem]:
    """Fields of one value that have two."""
    compared = any("versus" in p.sets or "compare" in p.sets for p in found)
    several = {*_LIST, *_COMPARED} if compared else {*_LIST}
    seen: dict[str, tuple[Any, Phrase]] = {}
    for phrase in found:
        for field, value in phrase.sets.items():
            if field not in seen or field in several or seen[field][0] == value:
                seen.setdefault(field, (value, phrase))
                continue
            one, two = seen[field][1].text, phrase.text
            yield Problem("", f"this and '{two}' exclude each other; ask one question at a time", one)
