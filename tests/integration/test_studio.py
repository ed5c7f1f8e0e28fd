"""The studio over plain HTTP: who may ask, what it may read, and that it answers as the verbs do."""

from __future__ import annotations

import http.client
import json
import os
import signal
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

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama3-8b-8xh100-fsdp.yaml"


class Client:
    """A browser's view: one host, one cookie."""

    def __init__(self, address: str) -> None:
        self.port = int(address.split(":")[2].split("/", maxsplit=1)[0])
        self.token = address.split("token=")[1]
        self.cookie = ""
        status, headers, _ = self.ask("GET", f"/?token={self.token}")
        assert status == 303
        self.cookie = headers["set-cookie"].split(";")[0]
        self.attributes = headers["set-cookie"]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {"Host": f"127.0.0.1:{self.port}", "Cookie": self.cookie}
        content = None
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            given |= {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{self.port}"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, content, given)
        answer = connection.getresponse()
        found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        connection.close()
        return found

    def post(self, path: str, body: Any) -> dict[str, Any]:
        """A JSON answer."""
        status, _, content = self.ask("POST", path, body)
        assert status == 200, content
        answer: dict[str, Any] = json.loads(content)
        return answer


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path, subprocess.Popen[str]]]:
    """A running studio on a folder with one scenario."""
    root = tmp_path_factory.mktemp("root")
    (root / "a.yaml").write_text(EXAMPLE.read_text())
    (root.parent / "secret.yaml").write_text("model: secret\ncluster: x\n")
    command = [sys.executable, "-m", "windtunnel", "studio", str(root), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield Client(process.stdout.readline().strip()), root, process
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    process.stdout.close()


def test_the_token_works_once_and_its_cookie_is_closed_to_scripts(studio: Any) -> None:
    client, _, _ = studio
    assert "HttpOnly" in client.attributes and "SameSite=Strict" in client.attributes
    assert client.ask("GET", f"/?token={client.token}", Cookie="")[0] == 401
    assert client.ask("GET", "/", Cookie=f"windtunnel-{client.port}=guess")[0] == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost"])
def test_another_host_is_refused(studio: Any, host: str) -> None:
    assert studio[0].ask("GET", "/", Host=host)[0] == 421


def test_a_foreign_origin_and_a_form_are_refused(studio: Any) -> None:
    client, _, _ = studio
    body = {"text": "model: x"}
    assert client.ask("POST", "/api/predict", body, Origin="http://evil.example")[0] == 403
    assert client.ask("POST", "/api/predict", body, Origin="null")[0] == 403
    assert client.ask("POST", "/api/predict", body, Content_Type="text/plain")[0] == 403
    assert client.ask("GET", "/api/files", Origin="http://evil.example")[0] == 403


def test_a_body_that_is_too_large_is_refused(studio: Any) -> None:
    client, _, _ = studio
    assert client.ask("POST", "/api/predict", b"{}", Content_Length="5000000")[0] == 413


def test_pages_run_nothing_inline(studio: Any) -> None:
    status, headers, body = studio[0].ask("GET", "/")
    policy = headers["content-security-policy"]
    assert status == 200 and "default-src 'none'" in policy and "unsafe" not in policy
    assert b"<script>" not in body and b"style=" not in body
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["../app.py", "..%2fapp.py", "/etc/passwd", "%2e%2e/app.py", ".hidden.js", "app.py"])
def test_nothing_outside_the_pages_is_served(studio: Any, path: str) -> None:
    assert studio[0].ask("GET", f"/static/{path}")[0] == 404


def test_a_prediction_is_that_of_the_verb(studio: Any) -> None:
    client, root, _ = studio
    answer = client.post("/api/predict", {"text": EXAMPLE.read_text()})
    command = [sys.executable, "-m", "windtunnel", "train", str(root / "a.yaml"), "--json"]
    own = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert answer["ok"]
    for name in ("step_time_s", "mfu", "peak_memory_reserved_bytes", "breakdown", "interval"):
        assert answer["result"][name] == own[name]


def test_a_question_in_words_is_answered_as_on_the_terminal(studio: Any) -> None:
    client, root, _ = studio
    status, _, body = client.ask("POST", "/api/ask", {"words": "qlora llama3-8b on a 4090"})
    found = json.loads(body)
    assert (status, found["ok"], found["command"]) == (200, True, "train")
    assert found["answer"][0]["name"] == "read"
    assert "nf4" in found["text"]
    unread = json.loads(client.ask("POST", "/api/ask", {"words": "trian llama3-8b on a 4090"})[2])
    assert not unread["ok"] and "train" in unread["problems"][0]["hint"]
    (root.parent / "secret.json").write_text('{"model_type": "llama"}')
    outside = json.loads(
        client.ask("POST", "/api/ask", {"words": f"train from {root.parent}/secret.json on 8 h100"})[2]
    )
    assert not outside["ok"]
    assert client.ask("POST", "/api/ask", {"text": "llama3-8b on a 4090"})[0] == 400


def test_a_figure_is_explained_as_the_terminal_does(studio: Any) -> None:
    client, root, _ = studio
    answer = client.post("/api/explain", {"text": EXAMPLE.read_text(), "verb": "train", "path": "breakdown.gemm"})
    command = [sys.executable, "-m", "windtunnel", "explain", str(root / "a.yaml"), "--json"]
    own = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert answer["origin"]["group"] == "gemm" and answer["chain"]["chain"] == own["chain"]
    assert {"board power", "device memory"} <= {row["name"] for row in answer["sheet"]}
    wrong = client.post("/api/explain", {"text": "plan: {tp: 3}", "verb": "train", "path": "mfu"})
    assert not wrong["ok"] and wrong["problems"]


def test_what_is_wrong_comes_with_its_field(studio: Any) -> None:
    client, _, _ = studio
    answer = client.post("/api/predict", {"text": EXAMPLE.read_text() + "\nplan: {tp: 3}\n"})
    assert not answer["ok"] and answer["problems"][0]["field"] == "plan"
    assert client.post("/api/predict", {"text": "a: [" * 40})["problems"]
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8)
    )
    assert client.post("/api/predict", {"text": bomb})["problems"]


def test_files_outside_the_folder_are_not_read(studio: Any) -> None:
    client, root, _ = studio
    for path in ("/etc/hostname", "../secret.yaml"):
        answer = client.post(
            "/api/predict", {"text": EXAMPLE.read_text().replace("model:", f"model: {{config: {path}}}  #")}
        )
        assert any("must lie below the folder" in problem["message"] for problem in answer["problems"]), answer
    (root / "link.yaml").symlink_to(root.parent / "secret.yaml")
    listed = json.loads(client.ask("GET", "/api/files")[2])
    assert [entry["path"] for entry in listed["scenarios"]] == ["a.yaml"]
    assert client.ask("GET", "/api/file/..%2f..%2fetc%2fpasswd")[0] == 404
    assert client.ask("GET", "/api/file/0123456789abcdef")[2].find(b"no such file") > 0


def test_a_file_that_changed_on_disk_is_not_overwritten(studio: Any) -> None:
    client, root, _ = studio
    (entry,) = json.loads(client.ask("GET", "/api/files")[2])["scenarios"]
    path = f"/api/file/{entry['id']}"
    read = json.loads(client.ask("GET", path)[2])
    os.utime(root / "a.yaml", (1, 1))
    answer = json.loads(client.ask("PUT", path, {"text": "lost", "changed": read["changed"]})[2])
    assert not answer["ok"] and "has changed on disk" in answer["problems"][0]["message"]
    assert (root / "a.yaml").read_text() == EXAMPLE.read_text()
    read = json.loads(client.ask("GET", path)[2])
    assert json.loads(client.ask("PUT", path, {"text": read["text"], "changed": read["changed"]})[2])["ok"]


def test_a_killed_worker_is_replaced(studio: Any) -> None:
    client, _, process = studio
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    for pid in found.stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    deadline = time.monotonic() + 60
    while not client.post("/api/predict", {"text": EXAMPLE.read_text()})["ok"]:
        assert time.monotonic() < deadline


def test_sql_reaches_nothing_but_the_sweep(studio: Any) -> None:
    client, root, _ = studio
    command = [
        sys.executable,
        "-m",
        "windtunnel",
        "sweep",
        str(EXAMPLE),
        "--vary",
        "plan.mbs=1,2",
        "--out",
        str(root / "runs"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (entry,) = json.loads(client.ask("GET", "/api/files")[2])["sweeps"]
    path = f"/api/sweep/{entry['id']}"
    assert len(client.post(path, {"sql": "SELECT * FROM cells"})["rows"]) == 2
    for sql in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY cells TO '/tmp/out.csv'",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM '/etc/passwd'",
    ):
        answer = client.post(path, {"sql": sql})
        assert not answer["ok"], sql


def test_reports_are_in_an_origin_of_their_own(studio: Any) -> None:
    client, _, _ = studio
    answer = client.post("/api/report", {"text": EXAMPLE.read_text()})
    assert answer["ok"]
    status, headers, body = client.ask("GET", answer["report"])
    assert status == 200 and "sandbox allow-scripts" in headers["content-security-policy"]
    assert b"<script nonce=" in body and b"<script>" not in body


def test_a_job_runs_and_is_stopped(studio: Any) -> None:
    client, _, _ = studio
    started = client.post("/api/job", {"text": EXAMPLE.read_text(), "verb": "advise"})
    assert started["ok"]
    state = json.loads(client.ask("GET", f"/api/job/{started['id']}")[2])
    assert state["state"] in ("running", "done")
    assert json.loads(client.ask("DELETE", f"/api/job/{started['id']}", {})[2])["state"] == "stopped"


@pytest.mark.parametrize(
    ("traffic", "options", "field"),
    [(None, {}, "serving.traffic"), ({"rate_per_s": 2}, {"points": 99}, "points"), ({}, {}, "serving.traffic")],
)
def test_a_load_curve_without_loads_is_refused(traffic: Any, options: dict[str, Any], field: str) -> None:
    from windtunnel.studio.worker import answer

    scenario = {"model": "meta-llama/Llama-3.1-8B"} | ({} if traffic is None else {"serving": {"traffic": traffic}})
    got = answer({"verb": "serve_curve", "scenario": scenario, "folder": ".", "options": options})
    assert not got["ok"] and got["exit_code"] == 2
    assert [problem["field"] for problem in got["problems"]] == [field]


@pytest.mark.parametrize("folder", ["../out", "/tmp/out", "", "a/../../out", "link/out"])
def test_rows_of_a_sweep_stay_below_the_folder(studio: Any, folder: str) -> None:
    client, root, _ = studio
    if not (root / "link").is_symlink():
        (root / "link").symlink_to(root.parent)
    answer = client.post("/api/sweeps", {"text": EXAMPLE.read_text(), "vary": ["plan.mbs=1,2"], "folder": folder})
    assert not answer["ok"] and answer["problems"][0]["field"] == "folder"
    assert not (root.parent / "out").exists() and not Path("/tmp/out").exists()


def test_a_sweep_reads_no_file_from_outside_and_has_a_most_number_of_cells(studio: Any) -> None:
    client, root, _ = studio
    asked = {"text": EXAMPLE.read_text(), "folder": "never/x", "count": True}
    told = client.post("/api/sweeps", {**asked, "vary": [f"model.config={root.parent}/secret.yaml"]})
    assert "secret" not in json.dumps(told).replace("secret.yaml", "")
    told = client.post("/api/sweeps", {**asked, "vary": ["training.global_batch=1..100000:+1"]})
    assert not told["ok"] and "more than 2,000 cells" in told["problems"][0]["message"]
    assert not (root / "never").exists()
