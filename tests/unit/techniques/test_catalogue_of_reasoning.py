"""Every system of test-time compute and agents is found by its catalogue id: a technique, a law, or claims."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from windtunnel.cli.main import app
from windtunnel.laws import LAWS
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.systems import system, systems
from windtunnel_lab import reproduce

OWN = [one for one in systems() if one.family in ("decode-tts", "agents")]


def test_there_are_fifty() -> None:
    assert [sum(one.family == family for one in OWN) for family in ("decode-tts", "agents")] == [35, 15]


@pytest.mark.parametrize("id", [one.id for one in OWN])
def test_each_is_built(id: str) -> None:
    experiment = REGISTRY.get(id).experiment if id in REGISTRY else id.replace("-", "_")
    assert experiment in reproduce.list_papers(), "no claims"
    assert id in REGISTRY or id in LAWS or experiment, "neither a technique nor a law nor claims"


@pytest.mark.parametrize(("id", "status"), [("cache_to_cache", "claims"), ("languini", "law"), ("ray", "planned")])
def test_show_finds_what_is_no_technique(id: str, status: str) -> None:
    run = CliRunner().invoke(app, ["techniques", "show", id, "--json"])
    assert run.exit_code == 0 and json.loads(run.stdout)["status"] == status
    told = CliRunner().invoke(app, ["techniques", "show", id])
    assert told.exit_code == 0 and id.replace("_", "-") in told.stdout


def test_ids_are_read_with_either_sign() -> None:
    assert system("cache_to_cache") == system("cache-to-cache") is not None
    assert system("nothing") is None
