"""The studio attacked from outside: malformed requests, slow and many connections, streams, clients that go away."""

from __future__ import annotations

import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the studio is an extra: pip install 'windtunnel[studio]'")
pytest.importorskip("uvicorn", reason="the studio is an extra: pip install 'windtunnel[studio]'")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("studio")]

EXAMPLE = (Path(__file__).parents[2] / "examples" / "llama3-8b-8xh100-fsdp.yaml").read_text()
ID = "0123456789abcdef"
WRITES = [
    ("POST", "/api/predict"),
    ("POST", "/api/ask"),
    ("POST", "/api/explain"),
    ("POST", "/api/report"),
    ("POST", "/api/job"),
    ("POST", "/api/export"),
    ("POST", "/api/code"),
    ("POST", "/api/trust"),
    ("POST", f"/api/sweep/{ID}"),
    ("PUT", f"/api/file/{ID}"),
    ("DELETE", f"/api/job/{ID}"),
]
BODIES = [
    b"{",
    b"[]",
    b"1",
    b"null",
    b'"text"',
    b"\xff\xfe",
    b'{"text": NaN}',
    b'{"text": "\\ud800"}',
    b'{"n": ' + b"9" * 5000 + b"}",
    b"[" * 200_000,
    b'{"text": ' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"tekst": "a"}',
    b'{"text": 1}',
    b'{"text": "a: 1", "file": {}}',
    b'{"text": "a: 1", "options": []}',
    b'{"text": "a: 1", "verb": "no-such-command"}',
    b'{"text": "a: 1", "verb": ["train"]}',
    b'{"a": [' + b"1," * 400_000 + b"1]}",
]
SEED = 30


class Studio:
    """A running studio and its cookie."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, "-m", "windtunnel", "studio", str(root), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        self.port = int(line.split(":")[2].split("/", maxsplit=1)[0])
        self.cookie = ""
        headers = self.ask("GET", f"/?token={line.split('token=')[1]}")[1]
        self.cookie = headers["set-cookie"].split(";", maxsplit=1)[0]

    def ask(self, method: str, path: str, body: bytes | None = None, **more: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {"Cookie": self.cookie}
        if method != "GET":
            given |= {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{self.port}"}
        connection.request(method, path, body, given | {k.replace("_", "-"): v for k, v in more.items()})
        with connection.getresponse() as answer:
            found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        connection.close()
        return found

    def raw(self, sent: bytes, wait_s: float = 30.0) -> bytes:
        """What comes back until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait_s) as connection:
            connection.sendall(sent)
            parts = b""
            while part := connection.recv(65536):
                parts += part
            return parts

    def head(self, *lines: str) -> bytes:
        """A request's head that the studio lets in, with more lines."""
        host = f"127.0.0.1:{self.port}"
        own = ["POST /api/predict HTTP/1.1", f"Host: {host}", f"Origin: http://{host}", f"Cookie: {self.cookie}"]
        return "\r\n".join([*own, "Content-Type: application/json", *lines, "", ""]).encode()

    def predicts(self) -> bool:
        """Whether it answers."""
        body = json.dumps({"text": EXAMPLE, "verb": "train"}).encode()
        return bool(json.loads(self.ask("POST", "/api/predict", body)[2])["ok"])


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A studio on a folder with one scenario."""
    root = tmp_path_factory.mktemp("root")
    (root / "a.yaml").write_text(EXAMPLE)
    running = Studio(root)
    yield running
    running.process.send_signal(signal.SIGTERM)
    running.process.wait(timeout=30)
    assert running.process.stdout is not None
    running.process.stdout.close()


def one_line(body: bytes) -> str:
    """The text of a refusal, which is one line."""
    text = body.decode()
    if text.startswith("{"):
        (text,) = {problem["message"] for problem in json.loads(text)["problems"][:1]}
    assert text and "\n" not in text.strip() and "Traceback" not in text and "internal error" not in text
    return text


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_a_malformed_body_is_a_line(studio: Studio, method: str, path: str) -> None:
    for body in BODIES:
        status, _, answer = studio.ask(method, path, body)
        assert 400 <= status < 500, (path, body[:40], status, answer)
        one_line(answer)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/files", 405),
        ("GET", "/api/predict", 405),
        ("POST", "/api/nothing", 404),
        ("GET", "/api/catalogue/nothing", 404),
        ("GET", "/api/entry/devices/..%2f..%2fetc%2fpasswd", 404),
        ("GET", "/api/file/%00", 404),
        ("GET", "/api/file/%ff%fe", 404),
        ("GET", "/api/job/%2e%2e", 404),
        ("GET", f"/api/watch/{ID}", 404),
        ("GET", "/static/..%2fapp.py", 404),
        ("GET", "/static/%2e%2e/%2e%2e/app.py", 404),
        ("GET", "/static/%00.js", 404),
        ("GET", "/static/" + "a" * 5000 + ".js", 404),
        ("GET", "/static//etc/passwd", 404),
        ("GET", "/report/..%2f..%2fa", 404),
        ("GET", "/trace/%00", 404),
    ],
)
def test_a_wrong_address_is_a_line(studio: Studio, method: str, path: str, status: int) -> None:
    found, headers, answer = studio.ask(method, path, b"{}" if method == "POST" else None)
    assert found == status
    one_line(answer)
    assert headers["x-content-type-options"] == "nosniff" and "server" not in headers


def test_headers_that_smuggle_are_refused(studio: Studio) -> None:
    body = b'{"text": "a: 1"}'
    inner = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    for head in (
        studio.head("Transfer-Encoding: chunked", f"Content-Length: {len(body)}"),
        studio.head("Transfer-Encoding: chunked"),
        studio.head("Content-Length: 4", "Content-Length: 16"),
        studio.head("Content-Length: +16"),
        studio.head("Content-Length: -1"),
        studio.head("Transfer-Encoding: xchunked"),
        studio.head("Content-Length: 16", "Origin: http://evil.example"),
        studio.head("Content-Length: 16", "Cookie: windtunnel=x"),
        studio.head("Content-Length: 16", "Host: evil.example"),
        studio.head("X: " + "a" * 100_000),
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
    ):
        answer = studio.raw(head + body + inner)
        assert answer.startswith(b"HTTP/1.1 4"), (head[-60:], answer[:80])
        assert b" 200 OK" not in answer
    assert studio.predicts()


def test_slow_requests_are_ended_and_stop_nobody(studio: Studio) -> None:
    slow = [socket.create_connection(("127.0.0.1", studio.port), timeout=40) for _ in range(300)]
    draw = random.Random(SEED)
    for connection in slow:
        connection.sendall(draw.choice([b"GET / HT", studio.head("Content-Length: 100") + b"{", b"", b"\r\n"]))
    assert studio.predicts()
    for connection in slow:
        answer = connection.recv(1000)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
        connection.close()


def test_a_large_list_stops_nobody(studio: Studio) -> None:
    text = "a: [" + "1," * 490_000 + "1]"
    answer = json.loads(studio.ask("POST", "/api/predict", json.dumps({"text": text}).encode())[2])
    assert "at most 50000 values" in answer["problems"][0]["message"]
    assert studio.predicts()


def test_streams_are_limited(studio: Studio) -> None:
    (entry,) = json.loads(studio.ask("GET", "/api/files")[2])["scenarios"]
    connections, statuses = [], []
    for _ in range(12):
        connections.append(http.client.HTTPConnection("127.0.0.1", studio.port, timeout=20))
        connections[-1].request("GET", f"/api/watch/{entry['id']}?tab=one", headers={"Cookie": studio.cookie})
        statuses.append(connections[-1].getresponse())
    assert [answer.status for answer in statuses] == [200] * 8 + [429] * 4
    for connection, answer in zip(connections, statuses, strict=True):
        answer.close()
        connection.close()
    deadline = time.monotonic() + 20
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=20)
        connection.request("GET", f"/api/watch/{entry['id']}?tab=one", headers={"Cookie": studio.cookie})
        with connection.getresponse() as answer:
            status = answer.status
        connection.close()
        if status == 200:
            break
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_two_studios_do_not_sign_each_other_out(studio: Studio, tmp_path: Path) -> None:
    other = Studio(tmp_path)
    try:
        both = f"{studio.cookie}; {other.cookie}"
        assert studio.cookie.split("=")[0] != other.cookie.split("=")[0]
        assert studio.ask("GET", "/", Cookie=both)[0] == other.ask("GET", "/", Cookie=both)[0] == 200
    finally:
        other.process.send_signal(signal.SIGTERM)
        other.process.wait(timeout=30)
        assert other.process.stdout is not None
        other.process.stdout.close()


def test_work_ends_with_the_client(studio: Studio) -> None:
    """A question that would run to its limit is given up where its client goes."""
    body: dict[str, Any] = {
        "text": "learning: {task: logistic, workers: 4, steps: 3000000, algorithms: [data_parallel],"
    }
    body["text"] += " seeds: 4, step_s: 0.25, parameters: 100M, layers: 12, link: data-centre}\n"
    assert studio.predicts()
    found = subprocess.run(["pgrep", "-P", str(studio.process.pid)], capture_output=True, text=True, check=False)
    before = set(found.stdout.split())
    data = json.dumps({**body, "verb": "learn"}).encode()
    with socket.create_connection(("127.0.0.1", studio.port), timeout=20) as connection:
        connection.sendall(studio.head(f"Content-Length: {len(data)}") + data)
        time.sleep(1.0)
    deadline = time.monotonic() + 8.0  # before the limit of a prediction, which ends it as well
    while True:
        found = subprocess.run(["pgrep", "-P", str(studio.process.pid)], capture_output=True, text=True, check=False)
        if not before <= set(found.stdout.split()):
            break
        assert time.monotonic() < deadline, "it works on"
        time.sleep(0.2)
    assert studio.predicts()
