"""Sizes that no machine has are refused before anything is allocated, in words about the field."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from windtunnel import api, machine_memory
from windtunnel.errors import BadInput

SERVED: dict[str, Any] = {
    "model": "openai-community/gpt2",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
    "serving": {"traffic": {"rate_per_s": 2, "num_requests": 5, "input_tokens": 20, "output_tokens": 5}},
}


def test_what_the_process_may_take_is_below_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < machine_memory.free_bytes() < float("inf")
    taken = float(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (int(taken + (1 << 30)), resource.RLIM_INFINITY))
    assert machine_memory.free_bytes() < 1.1 * (1 << 30)


def test_small_sizes_are_never_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_memory, "free_bytes", lambda: 0.0)
    machine_memory.require_bytes(1e6, "x", "a little")
    with pytest.raises(BadInput, match=r"x = 7: a lot would take 9.3 GiB of memory; 0.0 GiB are free"):
        machine_memory.require_bytes(1e10, "x", "a lot", 7)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("num_requests", 10**9, "num_requests: 1,000,000,000 requests would take"),
        ("concurrency", 16, "num_requests: 1,000,000,000 requests would take"),
        ("duration_s", 1e10, "duration_s: "),
        ("sessions", {"turns": {"mean": 1e9}}, "sessions.turns"),
    ],
)
def test_absurd_traffic_is_refused(field: str, value: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_memory, "free_bytes", lambda: float(8 << 30))
    traffic = SERVED["serving"]["traffic"] | {field: value}
    if field == "concurrency":
        traffic = {k: v for k, v in traffic.items() if k != "rate_per_s"} | {"num_requests": 10**9}
    elif field != "num_requests":
        traffic = {k: v for k, v in traffic.items() if k != "num_requests"} | {"duration_s": 1e10} | {field: value}
    with pytest.raises(BadInput, match=said):
        api.simulate_serving(SERVED | {"serving": {"traffic": traffic}})


@pytest.mark.parametrize(("topology", "field"), [("fat-tree", "spines"), ("dragonfly", "routers_per_group")])
def test_switches_beyond_what_memory_holds_are_refused(
    topology: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_memory, "free_bytes", lambda: float(8 << 30))
    network = {"nics_per_node": 8, "nic_bytes_per_s": "50 GB/s", "topology": topology, "fabric": {field: 10**9}}
    cluster = {"device": "h100-sxm-80gb", "nodes": 16, "devices_per_node": 8, "scale_out": network}
    training = {"seq_len": 1024, "global_batch": 128}
    with pytest.raises(BadInput, match=rf"scale_out.fabric.{field} = 1000000000: .* would take"):
        api.simulate_training({"model": "openai-community/gpt2", "cluster": cluster, "training": training})


def test_a_search_over_a_million_devices_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_memory, "free_bytes", lambda: float(8 << 30))
    cluster = SERVED["cluster"] | {"nodes": 10**6, "devices_per_node": 8}
    slo = {"slo": {"ttft_s": 1.0}}
    scenario = SERVED | {"cluster": cluster, "serving": SERVED["serving"] | slo}
    with pytest.raises(BadInput, match="deployments of this search"):
        api.plan(scenario | {"search": {"target": "serving", "objective": "devices"}})


def test_an_allocation_that_fails_says_how_much_was_asked_for() -> None:
    told = machine_memory.refusal(MemoryError("Unable to allocate 67.1 GiB for an array with shape (9007199255,)"))
    assert told.startswith("out of memory: 67.1 GiB were asked for at once") and "free on this machine" in told


def test_cached_files_of_a_container_count_as_free(tmp_path: Path) -> None:
    for name, text in (("memory.max", "1000\n"), ("memory.current", "900\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "memory.stat").write_text("anon 200\nfile 700\ninactive_file 400\nactive_file 300\nslab 0\n")
    assert machine_memory._of_container(tmp_path) == 800.0
    (tmp_path / "memory.max").write_text("max\n")
    assert machine_memory._of_container(tmp_path) == float("inf")
