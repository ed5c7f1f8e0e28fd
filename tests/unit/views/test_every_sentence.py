"""Every sentence of the terminal stands in the HTML report and in what the studio draws, command by command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from view_texts import fragments, missing, page_text, printed

from windtunnel import api
from windtunnel.serving import comparison
from windtunnel.views import (
    advise,
    cluster,
    compare,
    compare_serving,
    explain,
    explain_serving,
    fit,
    learn,
    plan,
    plan_serving,
    rank_devices,
    reason,
    run,
    search_run,
    serve,
    serve_sweep,
    train,
)
from windtunnel.views.view import View

TRACE = ["submit_s,num_gpus,duration_s,priority", "0,8,20000,0", "0,4,9000,1", "3700,8,4000,0", "9000,2,30000,0"]
MACHINES = {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
FAILING = {"failures": {"causes": [{"name": "software", "per_job_day": 40.0, "radius": "process", "detect_s": 30}]}}
JOBS = {
    "first-come": {"policy": "fifo"},
    "preempting": {"policy": "priority", "preempted_jobs": "lose", "start_overhead_s": 20},
    "failing": {"policy": "fifo", "outages": {**FAILING, "save_interval_s": 300}, "idle_watts_per_device": 50},
}


def _holds(view: View, *texts: str) -> None:
    told = fragments(view)
    assert len(told) > 10 and not [text for text in texts if not any(text in part for part in told)]
    assert missing(view) == []
    assert max(map(len, printed(view, 80).splitlines())) <= 80


@pytest.mark.parametrize("case", JOBS)
def test_cluster(tmp_path: Path, case: str) -> None:
    (tmp_path / "jobs.csv").write_text("\n".join(TRACE), encoding="utf-8")
    trace = str(tmp_path / "jobs.csv")
    result = api.simulate_cluster({"name": case, "cluster": MACHINES, "jobs": {"trace": trace, **JOBS[case]}})
    _holds(cluster.view(result), "4 jobs on", "Utilisation", "list price of the device")


MODEL = "openai-community/gpt2"
ONE_NODE = {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8}
SMALL = {"name": "small & <b>", "model": MODEL, "cluster": ONE_NODE, "training": {"seq_len": 1024, "global_batch": 64}}
STEPS: dict[str, dict[str, Any]] = {
    "replicas": {"plan": {"tp": 1, "mbs": 4}},
    "pipeline": {"plan": {"tp": 2, "pp": 2, "mbs": 1, "recompute": "full"}},
}


@pytest.mark.parametrize("case", STEPS)
def test_train(case: str) -> None:
    result = api.simulate_training({**SMALL, **STEPS[case]}, trace=True)
    found = train.view(result, published=train.Published(0.1, 0.2))
    _holds(found, "published 0.1 to 0.2 s", "Where the time goes", "gemm", "capacity", "matrix throughput", "fits")


@pytest.mark.parametrize(("model", "verdict"), [(MODEL, "fits: "), ("meta-llama/Llama-3.1-70B", "does not fit: ")])
def test_fit(model: str, verdict: str) -> None:
    found = api.fit({**SMALL, "model": model, "plan": {"tp": 1, "mbs": 4}})
    _holds(fit.view(found), verdict, "largest micro-batch", "weights")


@pytest.mark.parametrize(
    ("against", "focus"),
    [(None, {}), (0.9, {}), (None, {"time_class": "gemm"}), (None, {"term": "memory"})],
    ids=["chain", "gap", "class", "term"],
)
def test_explain(against: float | None, focus: dict[str, str]) -> None:
    found = api.explain({**SMALL, "plan": {"tp": 2, "mbs": 4}}, against=against)
    _holds(explain.view(found, **focus), "exposed" if against is None else "measured step of")


def test_compare() -> None:
    first = {**SMALL, "plan": {"tp": 1, "mbs": 4}}
    found = api.compare(first, {**SMALL, "plan": {"tp": 2, "mbs": 2}})
    _holds(compare.view(found), "plan.tp", "From A to B", "B against A", "step time of B against A")


SEARCHED = {"tp": [1, 2], "pp": [1, 2], "recompute": ["none", "full"]}


@pytest.mark.parametrize(
    ("search", "asked", "texts"),
    [
        ({"space": SEARCHED}, {"explain": True}, ("Fastest as simulated", "Why not another layout", "Best by axis")),
        ({"space": SEARCHED, "objective": ["step_time", "memory_headroom"]}, {}, ("Pareto front", "memory headroom")),
        (
            {"space": SEARCHED, "objective": "energy_per_million_tokens"},
            {"explain": True},
            ("Best energy per million",),
        ),
    ],
    ids=["why", "front", "energy"],
)
def test_plan(search: dict[str, Any], asked: dict[str, bool], texts: tuple[str, ...]) -> None:
    _holds(plan.view(api.plan({**SMALL, "search": search}, **asked)), *texts, "Simulated plans", "candidates")


def test_a_plan_of_the_scenario_that_does_not_fit_is_said_so_everywhere() -> None:
    own = {**SMALL, "model": "meta-llama/Llama-3.1-8B", "plan": {"tp": 1, "pp": 1, "mbs": 1, "zero": 0}}
    found = api.plan({**own, "search": {"space": {"tp": [4, 8], "pp": [1], "zero": [1]}}}, free=True)
    assert found.written is not None and not found.written.memory_fits
    _holds(plan.view(found), "Scenario's own plan", "the scenario's own plan does not fit")


@pytest.mark.slow
def test_devices_ranked_by_cost() -> None:
    search = {"space": {"tp": [1], "pp": [1]}}
    source = {**SMALL, "cluster": {**ONE_NODE, "device": "any"}, "search": search}
    _holds(rank_devices.view(api.rank_devices(source)), "h100-sxm-80gb", "$ per hour", "Prices are those")


def test_advise() -> None:
    found = api.advise({**SMALL, "plan": {"tp": 2, "mbs": 1}}, pairs=False)
    unfit = next(iter(found.unfit))
    for everything in (False, True):
        told = advise.view(found, everything=everything)
        _holds(told, "time goes to", "what moves", "No gain here", "Does not apply")
        assert any(part.startswith(f"{unfit}: ") for part in fragments(told)) is everything
        page = page_text(told)
        every = [one for name, _ in advise.GROUPS for one in getattr(found, name)]
        assert every and all(advise.change_text(one) in page for one in every)


LEARNING = {
    "task": "logistic",
    "workers": 3,
    "steps": 60,
    "algorithms": ["data_parallel", {"diloco": {"period": 10}}],
    "seeds": 2,
    "step_s": 0.25,
    "parameters": 100_000_000,
    "layers": 12,
    "link": "data-centre",
}


@pytest.mark.parametrize("more", [{}, {"target": {"loss": 0.65}}], ids=["curves", "target"])
def test_learn(more: dict[str, Any]) -> None:
    result = api.simulate_learning({"name": "two & two", "learning": {**LEARNING, **more}})
    _holds(learn.view(result), "data_parallel", "bytes a worker", "logistic: 3 workers")
    assert "●" in printed(learn.view(result, plot=True)) and missing(learn.view(result, plot=True)) == []


REASONING = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": ONE_NODE,
    "programs": {
        "strategies": [{"best_of_n": {"n": [1, 4], "selector": "checker"}}],
        "problems": 20,
        "offline": True,
        "input_tokens": 150,
        "output_tokens": 200,
    },
    "population": {"beta": {"a": 0.3, "b": 1.2}},
}


@pytest.mark.parametrize("search", [{}, {"objective": "accuracy", "limits": {"latency_p99_s": 60}}])
def test_reason(search: dict[str, Any]) -> None:
    result = api.simulate_programs({**REASONING, **({"search": search} if search else {})})
    _holds(reason.view(result), "The best candidate", "accuracy", "USD a problem", "Best at a budget", "bound by")


RUN = {
    **SMALL,
    "cluster": {**ONE_NODE, "nodes": 4},
    "plan": {"tp": 1, "mbs": 2},
    "run": {
        "tokens": 2_000_000_000_000,
        "failures": "opt-175b-2022",
        "replications": 20,
        "checkpoint": {"tiers": [{"to": "storage"}]},
    },
}


@pytest.mark.parametrize("sensitivities", [False, True])
def test_run(sensitivities: bool) -> None:
    result = api.simulate_run(RUN, sensitivities=sensitivities)
    texts = ("Where the time goes", "goodput", "saves every", "run.", *(["What would change"] if sensitivities else []))
    _holds(run.view(result), *texts)


def test_choices_of_a_run() -> None:
    _holds(search_run.view(api.search_run(RUN)), "fewest days", "The race", "saves every", "Save interval")


TRAFFIC = {"rate_per_s": 20, "num_requests": 150, "input_tokens": 300, "output_tokens": 40}
SERVED: dict[str, Any] = {
    "name": "chat & <b>",
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": ONE_NODE,
    "serving": {"engine": "vllm", "traffic": TRAFFIC, "slo": {"ttft_s": 0.5, "tpot_s": 0.03}},
}
SERVERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "one": ({}, ("of requests", "Bound by", "Goodput")),
    "saturated": ({"traffic": {**TRAFFIC, "rate_per_s": 900, "num_requests": 3000}}, ("Saturated: ", "waiting, at")),
    "pools": (
        {"pools": [{"role": "prefill", "replicas": 2}, {"role": "decode", "plan": {"tp": 2}}]},
        ("KV caches moved", "2 × tp 1"),
    ),
    "tenants": (
        {
            "pools": [{"admission": {"requests_per_minute": {"requests": 60}}}],
            "autoscale": {"max": 2, "target": 2, "interval_s": 1, "start_up_s": 1},
            "traffic": {**TRAFFIC, "tenants": [{"name": "anna"}, {"name": "bert", "share": 0.1}]},
        },
        ("Jain's index", "device-hours"),
    ),
}


@pytest.mark.parametrize("case", SERVERS)
def test_serve(case: str) -> None:
    changes, texts = SERVERS[case]
    result = api.simulate_serving({**SERVED, "serving": SERVED["serving"] | changes})
    _holds(serve.view(result), "TTFT", "requests run and", *texts)


@pytest.mark.parametrize("slo", [{"ttft_s": 0.5}, {}], ids=["objective", "none"])
def test_sweep_of_loads(slo: dict[str, float]) -> None:
    found = api.sweep_serving({**SERVED, "serving": SERVED["serving"] | {"slo": slo}}, "rate=8,80")
    at = api.simulate_serving(SERVED, overrides=found.as_overrides())
    _holds(serve_sweep.view(found), "is the largest load that", "done/s")
    shown = serve_sweep.view(found, at)
    _holds(shown, "is the largest load that", "TTFT p50")
    assert any(section.title.startswith("At the knee: ") for section in shown.sections)


def test_sweep_of_a_field() -> None:
    found = api.sweep_serving_field(SERVED, "serving.pools[0].plan.tp=1,2,3")
    _holds(serve_sweep.field_view(found), "cannot run", "best", "Highest goodput within the objective")


def test_compare_servings() -> None:
    first = api.simulate_serving(SERVED).to_dict()
    second = api.simulate_serving(SERVED, overrides=["serving.traffic.rate_per_s=40", "name=busier"]).to_dict()
    found = compare_serving.view(comparison.compared(first, second))
    _holds(found, "chat & <b>", "serving.traffic.rate_per_s", "TTFT p99", "Mean ", "B is bound by")
    assert comparison.FIGURES.keys() == compare_serving.WORDS.keys()


@pytest.mark.slow
def test_explain_serving() -> None:
    _holds(
        explain_serving.view(api.explain_serving(SERVED)), "device memory bandwidth", "acts on", "An exponent of -0.6"
    )


@pytest.mark.parametrize(
    "objective",
    ["devices", pytest.param(["tokens_per_s_per_device", "tokens_per_s_per_user"], marks=pytest.mark.slow)],
    ids=str,
)
def test_plan_of_servers(objective: Any) -> None:
    search = {
        "target": "serving",
        "slo_at": "central",
        "space": {"tp": [1, 2], "max_num_seqs": [16, 64]},
        "objective": objective,
    }
    found = api.plan({**SERVED, "search": search})
    front = ["Pareto front"] if isinstance(objective, list) else []
    _holds(plan_serving.view(found), "Best of each cut", "Why not another", "candidates", "Best ", *front)
