"""Limits of bodies and of headers, at their borders."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the servers are extras: pip install 'windtunnel[studio]'")


def status_of(parts: list[bytes], most_bytes: int) -> tuple[int, bytes]:
    """Status of the answer, and what the application got."""
    from windtunnel.servers.http import WholeBodies

    got, sent = [], []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        got.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    left = list(parts)

    async def receive() -> Any:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(WholeBodies(application, most_bytes)({"type": "http"}, receive, send))
    return sent[0]["status"], b"".join(got)


def test_a_body_of_the_largest_size_passes_whole_and_one_byte_more_does_not() -> None:
    assert status_of([b"abc", b"de"], 5) == (200, b"abcde")
    assert status_of([b"abc", b"def"], 5) == (413, b"")


def test_a_header_that_decides_who_may_ask_stands_once() -> None:
    from windtunnel.servers.http import headers_of

    assert headers_of({"headers": [(b"Host", b"a"), (b"accept", b"x"), (b"accept", b"y")]}) == {
        "host": "a",
        "accept": "y",
    }
    for name in (b"Host", b"origin", b"cookie", b"content-length", b"transfer-encoding", b"authorization"):
        assert headers_of({"headers": [(name, b"a"), (name.upper(), b"a")]}) is None
