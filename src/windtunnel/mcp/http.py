"""The server over HTTP: this machine alone, one token, one host and no origin but its own."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
import sys
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.servers.http import WholeBodies, headers_of, refuse, run

MOST_BODY_BYTES = 2_000_000


def serve(server: Any, port: int) -> None:
    """Serve until interrupted; the first line on standard output is the address with its token.

    Args:
        server: `MCPServer`.
        port: 0: any free port.
    """
    token = secrets.token_urlsafe(24)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        raise BadInput(Problem("--port", f"cannot be used: {error.strerror}", port)) from None
    listener.listen(128)  # a client that comes before the server has loaded waits
    bound = listener.getsockname()[1]
    hosts = (f"127.0.0.1:{bound}", f"localhost:{bound}")
    app = Guarded(WholeBodies(EndsWithConnection(server.streamable_http_app()), MOST_BODY_BYTES), token, hosts)
    sys.stdout.write(f"http://127.0.0.1:{bound}/mcp  Authorization: Bearer {token}\n")
    sys.stdout.flush()
    run(app, listener)


class EndsWithConnection:
    """Cancels the call of a request whose client goes away before the answer, as `notifications/cancelled` does."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, and wait for the end of its connection."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        first = await receive()
        calls, given, ended = _calls_of(first.get("body", b"")), False, False
        gone = asyncio.ensure_future(receive())

        async def replayed() -> Any:
            nonlocal given
            if given:
                return await asyncio.shield(gone)
            given = True
            return first

        async def sent(message: Any) -> None:
            nonlocal ended
            ended = ended or (message["type"] == "http.response.body" and not message.get("more_body"))
            if ended:
                gone.remove_done_callback(cancel)
            await send(message)

        def cancel(done: asyncio.Future[Any]) -> None:
            if not done.cancelled() and done.exception() is None and done.result()["type"] == "http.disconnect":
                for call in calls:
                    task = asyncio.ensure_future(self._cancel(scope, call))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

        if calls:
            gone.add_done_callback(cancel)
        try:
            await self.app(scope, replayed, sent)
        finally:
            gone.cancel()

    async def _cancel(self, scope: Any, call: Any) -> None:
        """Tell the session of a request that a call of it is cancelled."""
        rule = "the connection was closed"
        params = {"requestId": call, "reason": rule}
        body = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode()
        headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"content-length"]
        given = False

        async def receive() -> Any:
            nonlocal given
            if given:
                return {"type": "http.disconnect"}
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            del message

        await self.app({**scope, "headers": [*headers, (b"content-length", str(len(body)).encode())]}, receive, send)


def _calls_of(body: bytes) -> list[Any]:
    """Ids of the calls of a message."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return []
    calls = message if isinstance(message, list) else [message]
    return [one["id"] for one in calls if isinstance(one, dict) and one.get("method") == "tools/call" and "id" in one]


class Guarded:
    """Refuses requests with another host, a foreign origin, or without the token, before anything reads them."""

    def __init__(self, app: Any, token: str, hosts: tuple[str, ...]) -> None:
        self.app = app
        self.token = token
        self.hosts = hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or answer 400 (a header given twice), 421 (host), 403 (origin) or 401 (token)."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = headers_of(scope)
        if status := 400 if headers is None else self.refusal(headers):
            await refuse(send, status)
            return
        await self.app(scope, receive, send)

    def refusal(self, headers: dict[str, str]) -> int:
        """Status of the refusal; 0 where the request may pass."""
        if headers.get("host") not in self.hosts:
            return 421
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.hosts}:
            return 403
        given = headers.get("authorization", "").removeprefix("Bearer ")
        return 0 if hmac.compare_digest(given.encode(), self.token.encode()) else 401
