"""Which process of the studio answers what."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest


def test_questions_in_words_hold_no_process_of_other_answers(tmp_path: Any) -> None:
    pytest.importorskip("starlette")
    from windtunnel.studio.app import Studio

    studio = Studio(root=tmp_path)
    asked: list[str] = []

    def answers(name: str) -> Any:
        async def ask(question: dict[str, Any], client: str, number: int = 0) -> dict[str, Any]:
            del client, number
            asked.append(f"{name} {question['task']}")
            return {"ok": True}

        return SimpleNamespace(ask=ask)

    for name in ("live", "long", "behind", "asking"):
        setattr(studio, name, answers(name))
    request: Any = SimpleNamespace(headers={}, client=None, cookies={}, query_params={})
    assert asyncio.run(studio.ask(request, {"words": "llama3-8b on a 4090"})) == {"ok": True}
    assert asked == ["asking ask"]
