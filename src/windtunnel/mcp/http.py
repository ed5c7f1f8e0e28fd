"""The server over HTTP: this machine alone, one token, one host and no origin but its own."""

from __future__ import annotations

import hmac
import secrets
import socket
import sys
from typing import Any


def serve(server: Any, port: int) -> None:
    """Serve until interrupted; the first line on standard output is the address with its token.

    Args:
        server: `MCPServer`.
        port: 0: any free port.
    """
    import uvicorn

    token = secrets.token_urlsafe(24)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    bound = listener.getsockname()[1]
    hosts = (f"127.0.0.1:{bound}", f"localhost:{bound}")
    app = Guarded(server.streamable_http_app(), token, hosts)
    sys.stdout.write(f"http://127.0.0.1:{bound}/mcp  Authorization: Bearer {token}\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, log_level="error", lifespan="on")
    uvicorn.Server(config).run(sockets=[listener])


class Guarded:
    """Refuses requests with another host, a foreign origin, or without the token, before anything reads them."""

    def __init__(self, app: Any, token: str, hosts: tuple[str, ...]) -> None:
        self.app = app
        self.token = token
        self.hosts = hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or answer 421 (host), 403 (origin) or 401 (token)."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        status = self.refusal(headers)
        if status:
            await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
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
