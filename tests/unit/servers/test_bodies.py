"""Bodies of requests: objects with known fields, refused in one line otherwise."""

from __future__ import annotations

import pytest

from windtunnel.servers.bodies import Malformed, object_of, with_fields


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
