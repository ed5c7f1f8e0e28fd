"""Limits of the HTTP servers: time for headers and bodies, their sizes, and the number of connections."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = 10.0
"""Seconds in which the headers of a request have to arrive."""
BODY_S = 20.0
"""Seconds in which a body has to arrive."""
KEEP_ALIVE_S = 15
MOST_HEADER_BYTES = 32_768
MOST_CONNECTIONS = 4000
_ONCE = (b"host", b"origin", b"cookie", b"content-type", b"content-length", b"authorization", b"transfer-encoding")
_WORDS = {
    400: "a header may be given once, and a length must be a number",
    401: "the address with the token was not opened in this browser, or the token is wrong",
    403: "requests from other pages are refused, and writing needs Content-Type: application/json",
    408: "the request took too long to arrive",
    413: "the body is too large, or its length is not stated",
    421: "this server answers to its own address alone",
}


class TimedProtocol(H11Protocol):
    """A connection that is closed where the headers of a request do not arrive in time."""

    _closes: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for headers."""
        super().connection_made(transport)
        self._closes = self.loop.call_later(HEADERS_S, self._late)

    def data_received(self, data: bytes) -> None:
        """Wait for headers as long as no request is being answered."""
        super().data_received(data)
        if self._answers():
            self._stop_waiting()
        elif self._closes is None:
            self._closes = self.loop.call_later(HEADERS_S, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _answers(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _stop_waiting(self) -> None:
        if self._closes is not None:
            self._closes.cancel()
            self._closes = None

    def _late(self) -> None:
        self._closes = None
        if not self._answers() and not self.transport.is_closing():
            self.transport.close()


class WholeBodies:
    """Reads the body of a request, in bounded time and size, before an application sees the request."""

    def __init__(self, app: Any, most_bytes: int) -> None:
        self.app = app
        self.most_bytes = most_bytes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer 408 or 413 where the body is late or too large."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(self._body(receive), BODY_S)
        except TimeoutError:
            await refuse(send, 408)
            return
        if body is None:
            return
        if len(body) > self.most_bytes:
            await refuse(send, 413)
            return
        given = False

        async def replayed() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replayed, send)

    async def _body(self, receive: Any) -> bytes | None:
        """The body, or more bytes than allowed; None where the client has gone."""
        parts, size = [], 0
        while size <= self.most_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if not message.get("more_body"):
                break
        return b"".join(parts)


def headers_of(scope: Any) -> dict[str, str] | None:
    """Headers by their names in small letters; None where one that decides who may ask stands twice."""
    names = [name.lower() for name, _ in scope["headers"]]
    if any(names.count(name) > 1 for name in _ONCE):
        return None
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def refuse(send: Any, status: int) -> None:
    """Answer with a status and one line, and close the connection."""
    body = f"{_WORDS.get(status, 'refused')}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def run(app: Any, listener: Any) -> None:
    """Serve an application on a socket until a signal ends it."""
    config = uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        log_level="critical",
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
        limit_concurrency=min(MOST_CONNECTIONS, _files_open_at_most() - 100),
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _files_open_at_most() -> int:
    """How many files this process may have open, raised as far as connections need."""
    if os.name != "posix":
        return 512
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + 200
    if 0 <= soft < wanted:
        soft = wanted if hard < 0 else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft if soft > 200 else wanted
