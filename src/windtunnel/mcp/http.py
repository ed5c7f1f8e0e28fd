"""The server over HTTP: this machine alone, one token, one host and no origin but its own."""

from __future__ import annotations

import hmac
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
    app = Guarded(WholeBodies(server.streamable_http_app(), MOST_BODY_BYTES), token, hosts)
    sys.stdout.write(f"http://127.0.0.1:{bound}/mcp  Authorization: Bearer {token}\n")
    sys.stdout.flush()
    run(app, listener)


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
