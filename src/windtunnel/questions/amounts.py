"""Numbers with their units, as people write them in a question.

In lengths of sequences `8k` is 8 × 1,024 tokens and `1M` is 1,024 × 1,024; in counts k, M, B and T are powers of ten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from windtunnel.quantities import SUFFIXES_OF_COUNTS, SUFFIXES_OF_LENGTHS
from windtunnel.questions.tokens import Token, glued

Read = tuple[float, int]
"""A value, and the place of the token after it."""
Amount = Callable[[tuple[Token, ...], int], Read | None]

_IN_WORDS: Final = {
    "a": 1, "an": 1, "one": 1, "single": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "dozen": 12, "pair": 2, "couple": 2, "both": 2,
}  # fmt: skip
_TENS_IN_WORDS: Final = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
_TENS: Final = {
    **SUFFIXES_OF_COUNTS, "thousand": 1e3, "mio": 1e6, "million": 1e6, "millions": 1e6, "bn": 1e9, "billion": 1e9,
    "billions": 1e9, "g": 1e9, "tn": 1e12, "trillion": 1e12, "trillions": 1e12,
}  # fmt: skip
_SHORT: Final = {**SUFFIXES_OF_LENGTHS, "ki": 1024.0, "mi": 1024.0**2}
_TWOS: Final = {**_SHORT, "thousand": 1e3, "million": 1e6}
_MOST: Final = 1e15
"""Of a number before its unit; more digits are no amount of anything in a question."""
_LONGEST: Final = 10 * 1024.0**2
"""Tokens of the longest sequence that a model of the catalogue was made for."""
_SECONDS: Final = {
    "ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "msec": 1e-3, "us": 1e-6, "s": 1.0, "sec": 1.0, "secs": 1.0,
    "second": 1.0, "seconds": 1.0,
}  # fmt: skip
_DAYS: Final = {
    "min": 1 / 1440, "mins": 1 / 1440, "minute": 1 / 1440, "minutes": 1 / 1440, "h": 1 / 24, "hr": 1 / 24,
    "hrs": 1 / 24, "hour": 1 / 24, "hours": 1 / 24, "d": 1.0, "day": 1.0, "days": 1.0, "week": 7.0, "weeks": 7.0,
    "month": 365.25 / 12, "months": 365.25 / 12, "year": 365.25, "years": 365.25,
}  # fmt: skip
_WATTS: Final = {
    "w": 1.0, "watt": 1.0, "watts": 1.0, "kw": 1e3, "kilowatt": 1e3, "kilowatts": 1e3, "mw": 1e6, "megawatt": 1e6,
    "megawatts": 1e6,
}  # fmt: skip
_BYTES: Final = {"g": 1e9, "gb": 1e9, "gib": 2.0**30, "gig": 1e9, "gigs": 1e9, "tb": 1e12, "tib": 2.0**40}
_BITS: Final = {"gbit": 1e9, "gbits": 1e9, "gbps": 1e9, "gigabit": 1e9, "tbps": 1e12, "tbit": 1e12}


NUMBERS: Final = frozenset({"hundred", *_TENS_IN_WORDS, *(word for word in _TENS if len(word) > 4)}) | {
    word for word, value in _IN_WORDS.items() if value > 1
}
"""Words that are numbers, or that multiply one."""


def number(tokens: tuple[Token, ...], at: int) -> Read | None:
    """A number in digits."""
    if at >= len(tokens) or tokens[at].kind != "number" or tokens[at].text.count(".") > 1:
        return None
    value = float(tokens[at].text.replace(",", "").replace(" ", ""))
    return (value, at + 1) if value <= _MOST else None


def in_words(tokens: tuple[Token, ...], at: int) -> Read | None:
    """A count in words: `eight`, `sixty-four`, `a hundred`, `two hundred fifty six`, `a couple of`."""
    found = _below_hundred(tokens, at)
    if found is None:
        return None
    value, after = found
    if after < len(tokens) and tokens[after].text == "hundred":
        rest = _below_hundred(tokens, after + 1 + (after + 1 < len(tokens) and tokens[after + 1].text == "and"))
        return (100 * value + rest[0], rest[1]) if rest else (100 * value, after + 1)
    return found


def _below_hundred(tokens: tuple[Token, ...], at: int) -> Read | None:
    texts = [token.text for token in tokens[at : at + 3]]
    if not texts:
        return None
    if texts[0] == "a" and len(texts) > 1 and texts[1] in ("couple", "dozen", "pair"):
        return float(_IN_WORDS[texts[1]]), at + 2 + (len(texts) > 2 and texts[2] == "of")
    if texts[0] in _TENS_IN_WORDS:
        ones = _IN_WORDS.get(texts[1], 0) if len(texts) > 1 else 0
        joined = 1 <= ones <= 9 and texts[1] not in ("a", "an", "pair", "couple", "both")
        return float(_TENS_IN_WORDS[texts[0]] + (ones if joined else 0)), at + 1 + joined
    return (float(_IN_WORDS[texts[0]]), at + 1) if texts[0] in _IN_WORDS else None


def _of_unit(units: Mapping[str, float], *, bare: bool = False, whole: bool = False, worded: bool = False) -> Amount:
    """A number with one of these units.

    Args:
        units: Name of a unit → what it multiplies by.
        bare: Whether a number without a unit is one too.
        whole: Whether it may have no fraction.
        worded: Whether it may stand in words: `two weeks`.
    """

    def read(tokens: tuple[Token, ...], at: int) -> Read | None:
        found = number(tokens, at) or (in_words(tokens, at) if worded else None)
        if found is None:
            return None
        value, after = found
        if after < len(tokens) and tokens[after].text in units and not glued(tokens, after + 1):
            value, after = value * units[tokens[after].text], after + 1
        elif not bare:
            return None
        return None if whole and (value != round(value) or value < 1) else (value, after)

    return read


def in_digits(tokens: tuple[Token, ...], at: int) -> Read | None:
    """A count in digits, k, M, B and T being powers of ten."""
    return _of_unit(_TENS, bare=True, whole=True)(tokens, at)


def count(tokens: tuple[Token, ...], at: int) -> Read | None:
    """A count in digits or in words."""
    return in_words(tokens, at) or in_digits(tokens, at)


def money(tokens: tuple[Token, ...], at: int) -> Read | None:
    """Dollars: `$2M`, `2 million dollars`, `500 usd`."""
    signed = at < len(tokens) and tokens[at].text == "$"
    found = _of_unit(_TENS, bare=True)(tokens, at + signed)
    if found is None or signed:
        return found
    value, after = found
    named = after < len(tokens) and tokens[after].text in ("$", "dollar", "dollars", "usd", "bucks")
    return (value, after + 1) if named else None


def many(tokens: tuple[Token, ...], at: int) -> Read | None:
    """Tokens of a whole run: at least ten million, which no sequence has."""
    found = in_digits(tokens, at)
    return found if found is not None and found[0] >= 1e7 else None


def percent(tokens: tuple[Token, ...], at: int) -> Read | None:
    """A percentage between 0 and 100, as a share: `99` is 0.99."""
    found = number(tokens, at)
    return (found[0] / 100, found[1]) if found is not None and 0 < found[0] < 100 else None


def _up_to(read: Amount, most: float) -> Amount:
    """What `read` reads, if it is not larger."""

    def reading(tokens: tuple[Token, ...], at: int) -> Read | None:
        found = read(tokens, at)
        return found if found is not None and found[0] <= most else None

    return reading


def bare(tokens: tuple[Token, ...], at: int) -> Read | None:
    """A number without any unit that can only be a length: a power of two from 2,048 to 1,048,576."""
    found = number(tokens, at)
    return found if found is not None and found[0] in {2.0**n for n in range(11, 21)} else None


AMOUNTS: Final[Mapping[str, Amount]] = {
    "count": count,
    "digits": in_digits,
    "whole": _of_unit({}, bare=True, whole=True),
    "number": number,
    "rate": _of_unit(_TENS, bare=True),
    "length": _up_to(_of_unit(_TWOS, bare=True, whole=True), _LONGEST),
    "short": _up_to(_of_unit(_SHORT, whole=True), _LONGEST),
    "bare": bare,
    "seconds": _of_unit(_SECONDS, worded=True),
    "days": _of_unit(_DAYS, worded=True),
    "watts": _of_unit(_WATTS),
    "bytes": _of_unit(_BYTES),
    "bits": _of_unit(_BITS),
    "money": money,
    "many": many,
    "percent": percent,
}
"""Name of a placeholder → what reads it. `short` is a length with its k or M; `whole` a number without unit."""
