"""What a request has to show before anything reads it, and what pages may do.

The server listens on the loopback address alone. Its address holds a token once; it becomes a cookie that scripts
cannot read, and the next token is made. Another host name (DNS rebinding) is answered 421, a foreign origin 403, a
request without the cookie 401 (a page with a field for the token, where a browser asks for a page), a body that is too
large 413. Pages run their own scripts and nothing inline.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files as resources
from typing import Any
from urllib.parse import parse_qs

from windtunnel.servers.http import headers_of, refuse

MOST_BODY_BYTES = 1_000_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""For reports, which bring their scripts and styles in the page: an origin of its own, and only scripts that the server
has marked."""
SIGN_IN_POLICY = (
    "default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_WRITES = frozenset({"POST", "PUT", "DELETE"})


@dataclass(slots=True)
class Guard:
    """Refuses requests, and adds headers to answers. An ASGI application around another."""

    app: Any
    hosts: tuple[str, ...]
    """Values of `Host` that are ours: loopback and port."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """In the address; works once, then there is another."""
    renewed: Callable[[str], None] = lambda token: None
    """Is told the token of the next browser."""
    session: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """In the cookie."""

    @property
    def cookie(self) -> str:
        """Name of the cookie: cookies do not know ports, so a second studio would sign the first out."""
        return f"windtunnel-{self.hosts[0].rpartition(':')[2]}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See the module."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = headers_of(scope)
        status = 400 if headers is None else self.refusal(scope["method"], headers)
        if status == 401 and self._opens(scope):
            location = b"/"
            cookie = f"{self.cookie}={self.session}; HttpOnly; SameSite=Strict; Path=/".encode()
            there = [(b"location", location), (b"set-cookie", cookie), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 303, "headers": there})
            await send({"type": "http.response.body", "body": b""})
            return
        if status == 401 and headers and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            await _sign_in(send, wrong=bool(_token_in(scope)))
            return
        if status:
            await refuse(send, status)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                extra = [
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                    (b"cross-origin-opener-policy", b"same-origin-allow-popups"),
                    (b"cache-control", b"no-store"),
                ]
                if b"content-security-policy" not in given:
                    extra.append((b"content-security-policy", POLICY.encode()))
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self.app(scope, receive, guarded)

    def refusal(self, method: str, headers: dict[str, str]) -> int:
        """Status of a refusal; 0 where the request may pass."""
        if headers.get("host") not in self.hosts:
            return 421
        origin = headers.get("origin")
        ours = {f"http://{host}" for host in self.hosts}
        if origin is not None and origin not in ours and origin != "null":
            return 403
        if method in _WRITES and (
            origin not in ours or not headers.get("content-type", "").startswith("application/json")
        ):
            return 403
        length = headers.get("content-length", "0")
        if (
            not (length.isascii() and length.isdigit())
            or len(length) > 9
            or int(length) > MOST_BODY_BYTES
            or "transfer-encoding" in headers
        ):
            return 413
        cookies = dict(part.strip().partition("=")[::2] for part in headers.get("cookie", "").split(";"))
        return 0 if hmac.compare_digest(cookies.get(self.cookie, "").encode(), self.session.encode()) else 401

    def _opens(self, scope: Any) -> bool:
        """Whether this is the first visit with the token; the token is spent."""
        if not hmac.compare_digest(_token_in(scope).encode(), self.token.encode()):
            return False
        self.token = secrets.token_urlsafe(24)
        self.renewed(self.token)
        return True


def _token_in(scope: Any) -> str:
    """The token of an address; a field may hold a whole address."""
    given: str = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
    return given.rpartition("token=")[2].partition("#")[0].strip()


async def _sign_in(send: Any, *, wrong: bool) -> None:
    """A page with a field for the token; its status is 401."""
    nonce = secrets.token_urlsafe(12)
    said = "This token does not open the studio, or not any more."
    problem = f'<p class="problem" role="alert">{said}</p>' if wrong else ""
    text = resources("windtunnel.studio").joinpath("static", "sign-in.html").read_text(encoding="utf-8")
    body = text.replace("NONCE", nonce).replace("PROBLEM", problem).encode()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"content-security-policy", SIGN_IN_POLICY.format(nonce=nonce).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
