"""The server of the Model Context Protocol from outside: malformed messages, cancelled calls, and its end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the protocol is an extra: pip install 'windtunnel[mcp]'")
pytestmark = [pytest.mark.slow]

SCENARIO = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 32},
    "plan": {"tp": 2, "mbs": 1},
}
LONG = {
    "learning": {
        "task": "logistic",
        "workers": 4,
        "steps": 3_000_000,
        "algorithms": ["data_parallel"],
        "seeds": 4,
        "step_s": 0.25,
        "parameters": 100_000_000,
        "layers": 12,
        "link": "data-centre",
    }
}
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def call(id: int, tool: str, **arguments: Any) -> dict[str, Any]:
    """A message that calls a tool."""
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }


class Stdio:
    """A client over standard input and output."""

    def __init__(self, folder: Path) -> None:
        (folder / "temporary").mkdir()
        environment = {**os.environ, "TMPDIR": str(folder / "temporary")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "windtunnel", "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self.send(HELLO)
        assert self.answer(0)["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: Any) -> None:
        """Write one line."""
        assert self.process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def answer(self, id: int) -> dict[str, Any]:
        """The answer to a message, others passed over."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found: dict[str, Any] = json.loads(line)
            if found.get("id") == id:
                return found
        raise AssertionError("the server ended")

    def children(self) -> set[int]:
        """Processes that it has started."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False)
        return set(map(int, found.stdout.split()))


@pytest.fixture
def stdio(tmp_path: Path) -> Iterator[Stdio]:
    """A server over standard input and output."""
    client = Stdio(tmp_path)
    yield client
    if client.process.poll() is None:
        client.process.kill()
    client.process.wait()
    assert client.process.stdin is not None and client.process.stdout is not None
    client.process.stdin.close()
    client.process.stdout.close()


def test_a_cancelled_call_ends_its_work(stdio: Stdio) -> None:
    stdio.send(call(1, "predict_training", scenario=SCENARIO))
    assert stdio.answer(1)["result"]["structuredContent"]["ok"]
    stdio.send(call(2, "learn", scenario=LONG))
    time.sleep(3.0)
    (worker,) = stdio.children()
    stdio.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    deadline = time.monotonic() + 30
    while worker in stdio.children():
        assert time.monotonic() < deadline, "the process works on"
        time.sleep(0.2)
    stdio.send(call(3, "predict_training", scenario=SCENARIO))
    assert stdio.answer(3)["result"]["structuredContent"]["ok"]


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b"1", b"\xff\xfe", b"[" * 100_000, b'{"jsonrpc": "2.0", "id": 9, "method": "nothing/at/all"}'],
    ids=["open", "list", "number", "bytes", "deep", "method"],
)
def test_a_malformed_message_ends_nothing(stdio: Stdio, line: bytes) -> None:
    stdio.send(line)
    stdio.send(call(1, "catalog_search", words="h100", kind="devices"))
    assert stdio.answer(1)["result"]["structuredContent"]["ok"]


def test_a_signal_leaves_no_process_and_no_file(stdio: Stdio, tmp_path: Path) -> None:
    stdio.send(call(1, "plan", scenario={**SCENARIO, "plan": {}, "cluster": {"device": "h100", "nodes": 512}}))
    assert stdio.answer(1)["result"]["structuredContent"]["state"] == "running"
    stdio.send(call(2, "learn", scenario=LONG))
    time.sleep(2.0)
    children = stdio.children()
    assert children
    stdio.process.send_signal(signal.SIGTERM)
    assert stdio.process.wait(timeout=30) == 143
    assert not any(Path(f"/proc/{one}").exists() for one in children)
    assert not list((tmp_path / "temporary").iterdir())


def test_http_refuses_what_is_malformed() -> None:
    process = subprocess.Popen([sys.executable, "-m", "windtunnel", "mcp", "--http"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address, _, words = process.stdout.readline().strip().partition("/mcp ")
        port, token = int(address.rsplit(":", 1)[1]), words.strip().removeprefix("Authorization: ")

        def post(body: bytes, **headers: str) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            given = {
                "Authorization": token,
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
            }
            connection.request("POST", "/mcp", body, given | {k.replace("_", "-"): v for k, v in headers.items()})
            with connection.getresponse() as answer:
                status = answer.status
            connection.close()
            return status

        assert post(json.dumps(HELLO).encode()) == 200
        for body in (b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000, b'{"a": NaN}', b'"\\ud800"'):
            assert 400 <= post(body) < 500, body[:20]
        assert post(b"x" * 3_000_000) == 413
        assert post(json.dumps(HELLO).encode(), Authorization="Bearer wrong") == 401
        assert post(json.dumps(HELLO).encode(), Host="evil.example") == 421
        assert post(json.dumps(HELLO).encode(), Origin="http://evil.example") == 403
        with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
            slow.sendall(b"POST /mcp HTTP/1.1\r\nHost: ")
            assert slow.recv(1000) == b""  # closed, as the headers do not come
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        process.stdout.close()


def test_over_http_a_closed_connection_ends_its_call() -> None:
    process = subprocess.Popen([sys.executable, "-m", "windtunnel", "mcp", "--http"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address, _, words = process.stdout.readline().strip().partition("/mcp ")
        port, token = int(address.rsplit(":", 1)[1]), words.strip().removeprefix("Authorization: ")
        headers = {
            "Authorization": token,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }

        def post(message: Any) -> http.client.HTTPConnection:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("POST", "/mcp", json.dumps(message), headers)
            return connection

        def children() -> set[str]:
            found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
            return set(found.stdout.split())

        def until(done: Any, what: str) -> None:
            deadline = time.monotonic() + 60
            while not done():
                assert time.monotonic() < deadline, what
                time.sleep(0.2)

        hello = post(HELLO)
        headers["Mcp-Session-Id"] = str(hello.getresponse().headers["mcp-session-id"])
        hello.close()
        ready = post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        ready.getresponse().read()
        ready.close()
        connection = post(call(7, "learn", scenario=LONG))
        until(children, "no process has started")
        working = children()
        time.sleep(3.0)
        assert children() == working
        connection.close()
        until(lambda: not working & children(), "the process works on")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_jobs_end_with_a_server_that_is_killed(stdio: Stdio) -> None:
    stdio.send(call(1, "plan", scenario={**SCENARIO, "plan": {}, "cluster": {"device": "h100", "nodes": 512}}))
    assert stdio.answer(1)["result"]["structuredContent"]["state"] == "running"
    time.sleep(2.0)
    jobs = stdio.children()
    assert jobs
    stdio.process.kill()
    stdio.process.wait()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{one}").exists() for one in jobs):
        assert time.monotonic() < deadline, "a job works on"
        time.sleep(0.2)
