"""Start the studio: a socket on the loopback address, a token, a server."""

from __future__ import annotations

import json
import re
import secrets
import socket
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path

from windtunnel.errors import BadInput, Problem

_LINK = re.compile(r"^(?:https?://[^#\s]*)?(#/scenario\?s=[\w-]+)$")


def shared_scenario(target: str) -> str:
    """The fragment of a shared link, with its scenario; empty for what is no link.

    Raises:
        BadInput: a link without a scenario.
    """
    if found := _LINK.match(target.strip()):
        return found.group(1)
    if target.startswith(("http://", "https://", "#/")):
        raise BadInput(
            Problem("FILE", "is a link without a scenario; “Copy link” on the Scenario page makes one", target)
        )
    return ""


def serve(target: str | None, port: int, *, browser: bool, as_json: bool = False) -> None:
    """Serve until interrupted; the first line on standard output is the address with its token.

    Args:
        target: A scenario, a sweep, a folder of both, or a link that was shared from another studio; absent: the
            working directory.
        port: 0: any free port.
        browser: Whether to open a browser.
        as_json: Whether the first line is a JSON document.

    Raises:
        BadInput: the target is not there or is a link without a scenario, the port is taken, or the extra is not
            installed.
    """
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        raise BadInput(Problem("studio", "needs its web server: pip install 'windtunnel[studio]'"))
    shared = shared_scenario(target or "")
    place = Path("" if shared else target or "").resolve()
    if not place.exists():
        raise BadInput(Problem("FILE", "is not there", str(target)))
    root = place if place.is_dir() and not (place / "manifest.json").is_file() else place.parent
    opened = None if place == root else str(place.relative_to(root))
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        raise BadInput(Problem("--port", f"cannot be used: {error.strerror}", port)) from None
    bound = listener.getsockname()[1]
    hosts = (f"127.0.0.1:{bound}", f"localhost:{bound}")
    listener.listen(128)  # a browser that comes before the server has loaded waits
    token = secrets.token_urlsafe(24)
    address = f"http://127.0.0.1:{bound}/?token={token}{shared}"
    sys.stdout.write((json.dumps({"url": address, "root": str(root)}) if as_json else address) + "\n")
    sys.stdout.flush()
    if browser:
        webbrowser.open(address)
    from windtunnel.servers.http import WholeBodies, run
    from windtunnel.studio.app import Studio
    from windtunnel.studio.security import MOST_BODY_BYTES, Guard

    app = WholeBodies(Studio(root=root, opened=opened).application(), MOST_BODY_BYTES)

    def renewed(token: str) -> None:
        sys.stderr.write(f"for another browser: http://127.0.0.1:{bound}/?token={token}\n")
        sys.stderr.flush()

    run(Guard(app, hosts, token=token, renewed=renewed), listener)
