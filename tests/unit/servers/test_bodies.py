"""Bodies of requests: objects with known fields, refused in one line otherwise."""

from __future__ import annotations

import pytest

from windtunnel.servers.bodies import MOST_LEVELS, MOST_VALUES, Malformed, object_of, with_fields


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"{", "not valid JSON"),
        (b"\xff", "not UTF-8"),
        (b"[]", "must be a JSON object"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "levels"),
        (b"[" * 500_000, "levels"),
        (b'{"a": [' + b"1," * 200_000 + b"1]}", "values"),
        (b'{"a": "\\udc00"}', "surrogate"),
        (b'{"\\ud800": 1}', "surrogate"),
    ],
)
def test_what_no_page_sends_is_refused(body: bytes, rule: str) -> None:
    with pytest.raises(Malformed, match=rule):
        object_of(body)


def test_fields_are_known_and_of_their_kind() -> None:
    with_fields({"text": "a", "file": None}, {"text": str, "file": (str, type(None))})
    with pytest.raises(Malformed) as refused:
        with_fields({"tekst": "a", "text": 1, "changed": True}, {"text": str, "changed": (float, int)})
    assert len(refused.value.problems) == 3


def test_borders_of_depth_and_number() -> None:
    deep = b'{"a": ' + b"[" * (MOST_LEVELS - 1) + b"]" * (MOST_LEVELS - 1) + b"}"
    assert object_of(deep)
    with pytest.raises(Malformed, match="levels"):
        object_of(deep.replace(b"[]", b"[[]]"))
    many = b'{"a": [' + b",".join([b"1"] * (MOST_VALUES - 3)) + b"]}"  # the object, its key and its list count too
    assert object_of(many)
    with pytest.raises(Malformed, match="values"):
        object_of(many.replace(b"]", b",1]"))
