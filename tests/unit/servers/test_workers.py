"""Turns of clients: the last question of each is answered, a later one replaces only the same client's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from windtunnel.servers.workers import MOST_KEPT, Busy, Process, Replaced, Workers


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Questions in the order in which a process gets them; it answers after a moment."""
    seen: list[str] = []

    async def answered(self: Process, question: dict[str, Any], limit_s: float | None) -> bytes:
        seen.append(question["text"])
        await asyncio.sleep(0.005)
        return json.dumps({"ok": True, "text": question["text"], "may_be_kept": question["text"] == "kept"}).encode()

    monkeypatch.setattr(Process, "answered", answered)
    yield seen


async def outcomes(workers: Workers, *questions: tuple[str, str, int]) -> list[Any]:
    """What each question (text, client, number) comes to."""
    work = [asyncio.create_task(workers.ask({"text": t, "key": t}, client, n)) for t, client, n in questions]
    return await asyncio.gather(*work, return_exceptions=True)


def test_the_last_question_of_every_client_is_answered(asked: list[str]) -> None:
    edits = [(f"{client}.{turn}", f"{client}", turn) for turn in range(10) for client in range(100)]
    found = asyncio.run(outcomes(Workers("none"), *edits))
    assert [one["text"] for one in found[-100:]] == [f"{client}.9" for client in range(100)]
    assert all(isinstance(one, Replaced) or one["ok"] for one in found)
    assert len(asked) < 200


def test_a_question_that_was_overtaken_replaces_nothing(asked: list[str]) -> None:
    found = asyncio.run(outcomes(Workers("none"), ("a", "x", 1), ("c", "y", 3), ("b", "y", 2)))
    assert found[1]["text"] == "c" and isinstance(found[2], Replaced)


def test_equal_questions_are_answered_from_memory_where_no_file_was_read(asked: list[str]) -> None:
    workers = Workers("none")
    found = asyncio.run(outcomes(workers, *((text, f"{text} {n}", 1) for n in range(5) for text in ("kept", "read"))))
    assert all(one["ok"] and "may_be_kept" not in one for one in found)
    assert asked.count("kept") == 1 and len(asked) > 1


def test_as_many_clients_wait_as_may(asked: list[str]) -> None:
    found = asyncio.run(outcomes(Workers("none", most_waiting=2), *((f"{n}", f"{n}", 1) for n in range(5))))
    assert sum(isinstance(one, Busy) for one in found) == 2


def test_a_client_that_goes_takes_its_question_with_it(asked: list[str]) -> None:
    async def leaves() -> None:
        workers = Workers("none")
        first = asyncio.create_task(workers.ask({"text": "a"}, "x"))
        second = asyncio.create_task(workers.ask({"text": "b"}, "y"))
        await asyncio.sleep(0)
        second.cancel()
        await first
        await asyncio.sleep(0.02)
        assert not workers.waiting

    asyncio.run(leaves())
    assert asked == ["a"]


def test_a_page_that_still_types_goes_to_the_end_of_the_queue(asked: list[str]) -> None:
    asyncio.run(outcomes(Workers("none"), ("first", "w", 1), ("a1", "x", 1), ("b1", "y", 1), ("a2", "x", 2)))
    assert asked == ["first", "b1", "a2"]


def test_a_question_of_the_same_number_is_a_later_one(asked: list[str]) -> None:
    found = asyncio.run(outcomes(Workers("none"), ("first", "w", 0), ("a", "x", 0), ("b", "x", 0)))
    assert isinstance(found[1], Replaced) and found[2]["text"] == "b"


def test_kept_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answered(self: Process, question: dict[str, Any], limit_s: float | None) -> bytes:
        return json.dumps({"ok": True, "may_be_kept": True}).encode()

    monkeypatch.setattr(Process, "answered", answered)
    workers = Workers("none")
    asyncio.run(outcomes(workers, *((f"{n}", f"{n}", 1) for n in range(MOST_KEPT + 5))))
    assert len(workers.kept) == MOST_KEPT and "0" not in workers.kept
