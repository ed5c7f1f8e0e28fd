"""A hundred pages at once: the last edit of each is answered. Prints how long answers took; states no bound on time."""

from __future__ import annotations

import http.client
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the studio is an extra: pip install 'windtunnel[studio]'")
pytest.importorskip("uvicorn", reason="the studio is an extra: pip install 'windtunnel[studio]'")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("studio")]

EXAMPLE = (Path(__file__).parents[2] / "examples" / "llama3-8b-8xh100-fsdp.yaml").read_text()
CLIENTS, EDITS, SEED = 100, 10, 30


class Page:
    """A page of the studio: an edit does not wait for the answer to the one before."""

    def __init__(self, port: int, cookie: str, number: int, tabs: bool) -> None:
        self.port, self.number, self.cookie = port, number, cookie
        self.headers = {"windtunnel-tab": f"tab {number}"} if tabs else {}
        self.answers: dict[int, tuple[float, dict[str, object]]] = {}

    def edit(self, turn: int, batch: int) -> None:
        """One edit on a connection of its own, and what it was answered."""
        begun = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        given = {
            "Cookie": self.cookie,
            "Origin": f"http://127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            **self.headers,
            "windtunnel-edit": str(turn),
        }
        text = EXAMPLE.replace("global_batch: 8 ", f"global_batch: {batch} ")
        text = text.replace("name: llama3", f"name: page-{self.number}-{turn}")  # no two questions are equal
        connection.request("POST", "/api/predict", json.dumps({"text": text, "verb": "train"}), given)
        with connection.getresponse() as response:
            answer = json.loads(response.read())
        connection.close()
        self.answers[turn] = time.monotonic() - begun, answer


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """Port and cookie of a studio whose processes have loaded."""
    command = [sys.executable, "-m", "windtunnel", "studio", str(tmp_path), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    port = int(line.split(":")[2].split("/", maxsplit=1)[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/?token={line.split('token=')[1]}")
    with connection.getresponse() as answer:
        cookie = str(answer.getheader("set-cookie")).split(";", maxsplit=1)[0]
    connection.close()
    for number in range(6):
        Page(port, cookie, number, tabs=True).edit(0, 8 * (number + 1))
        time.sleep(1.0)
    yield port, cookie
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    process.stdout.close()


@pytest.mark.parametrize(
    ("tabs", "pause_s"), [(True, 0.12), (True, 1.0), (False, 0.12)], ids=["burst", "typing", "connections"]
)
def test_the_last_edit_of_every_page_is_answered(address: tuple[int, str], tabs: bool, pause_s: float) -> None:
    draw = random.Random(SEED)
    pages = [Page(*address, number, tabs) for number in range(CLIENTS)]
    edits = [[8 * draw.randint(1, 40) for _ in range(EDITS)] for _ in pages]
    waits = [draw.random() for _ in pages]

    def types(page: Page) -> None:
        time.sleep(waits[page.number])
        working = []
        for turn, batch in enumerate(edits[page.number]):
            working.append(threading.Thread(target=page.edit, args=(turn, batch)))
            working[-1].start()
            time.sleep(pause_s)
        for thread in working:
            thread.join()

    threads = [threading.Thread(target=types, args=(page,)) for page in pages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = sorted(page.answers[EDITS - 1][0] for page in pages)
    answered = [t for page in pages for t, answer in page.answers.values() if answer["ok"]]
    print(
        f"\nseed {SEED}, {CLIENTS} pages, {EDITS} edits each every {pause_s} s: {len(answered)} answered; "
        f"last edits p50 {last[CLIENTS // 2]:.2f} s, p95 {last[int(CLIENTS * 0.95)]:.2f} s, most {last[-1]:.2f} s"
    )
    for page in pages:
        final = page.answers[EDITS - 1][1]
        assert final["ok"], final
        assert final["result"]["scenario"]["training"]["global_batch"] == edits[page.number][-1]  # type: ignore[index]
        others = [answer for _, answer in page.answers.values() if not answer["ok"]]
        assert all(answer.get("replaced") for answer in others)
        assert tabs or not others
