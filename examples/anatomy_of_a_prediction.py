"""The whole way from a scenario to a prediction, stage by stage, with the functions that `windtunnel train` calls.

Run it from the repository root:  .venv/bin/python examples/anatomy_of_a_prediction.py [SCENARIO]
Each step prints what it hands on. Which file holds what: docs/development/architecture.md.
"""

from __future__ import annotations

import sys

import numpy as np

from windtunnel import catalog, graph, schedules
from windtunnel.cost.coefficients import coefficients
from windtunnel.cost.framework_defaults import behaviour
from windtunnel.engine import simulate
from windtunnel.errors import ProblemList
from windtunnel.graph import Batch
from windtunnel.parallel.resolve import resolve
from windtunnel.scenarios.load import load_scenario
from windtunnel.training.accounting.breakdown import breakdown
from windtunnel.training.predict import prepare, simulate_training
from windtunnel.training.simulate_step import memory_of
from windtunnel.training.stage_costs.local_block import local_block, style_of

GIB = 2**30


def heading(text: str) -> None:
    """Print the name of a stage."""
    print(f"\n{text}\n{'-' * len(text)}")


def main(path: str) -> float:
    """Walk through one prediction and return its step time in seconds."""
    heading("1. Scenario: YAML to frozen records (specs/), names to data sheets (catalog/)")
    scenario = load_scenario(path)
    assert isinstance(scenario.model, str) and scenario.training is not None
    model, cluster = catalog.model(scenario.model), catalog.resolve_cluster(scenario.cluster)
    training, device = scenario.training, cluster.device
    print(f"{model.name}: {model.num_hidden_layers} layers, hidden size {model.hidden_size}, layers {model.family}")
    memory_gib, bandwidth = device.memory_bytes / GIB, device.memory_bytes_per_s
    print(f"{cluster.num_devices} x {device.id}: {memory_gib:.1f} GiB of memory at {bandwidth:.3g} B/s")

    heading("2. Plan: defaults of the framework filled in, rules checked (parallel/resolve.py)")
    defaults = behaviour(training.framework)
    problems = ProblemList()
    plan = resolve(model, cluster, training, scenario.plan, defaults, problems)
    problems.raise_if_any()
    assert plan is not None
    print(f"tp {plan.tp}, pp {plan.pp}, vpp {plan.vpp}, cp {plan.cp}, dp {plan.dp}, zero {plan.zero}, mbs {plan.mbs}")
    print(f"{plan.m} micro-batches per replica and step, schedule {plan.schedule}, sequence parallel {plan.sp}")

    heading("3. Graph: operators of each kind of block, unsharded (graph/)")
    batch = Batch.train(plan.mbs, training.seq_len)
    whole = graph.build(model, batch, style=style_of(defaults, training, plan))
    for kind, block in whole.blocks.items():
        flop = sum(graph.forward_flop(op) for op in block.operators)
        print(f"block {kind}: {len(block.operators)} operators, {flop:.4g} FLOP forward")

    heading("4. Parallel: the operators of one rank (parallel/, training/stage_costs/local_block.py)")
    kind, block = next(iter(whole.blocks.items()))
    local = local_block(block, model, training, plan, batch.tokens)
    for op in local[:6]:
        print(f"{op.name}: {op.kind.name.lower()}, {graph.forward_flop(op):.4g} FLOP forward")
    print(f"... {len(local)} operators and collectives in block {kind} on one rank")

    heading("5. Price: operators to launches to seconds (cost/, network/, pricing/, training/stage_costs/)")
    fitted = coefficients(training.framework, device)
    print(f"coefficients of {training.framework} on {device.id}: a launch costs {fitted.host_kernel_s * 1e6:.3g} us")
    prepared, _ = prepare(path)  # steps 2 to 6 with everything that techniques, precision and recomputation change
    forward_s, backward_s, weight_s = prepared.stages.seconds
    print(f"seconds of a micro-batch by virtual stage: forward {np.round(forward_s, 5).tolist()[:4]} ...")
    print(f"                                           backward {np.round(backward_s + weight_s, 5).tolist()[:4]} ...")

    heading("6. Schedule: the order of passes on every stage (schedules/), then tasks (training/step/)")
    table = schedules.build(prepared.plan.schedule, plan.pp, plan.m, plan.vpp)
    print(f"{len(table.kind)} instructions on {plan.pp} stages")
    program = prepared.program
    tags = np.bincount(program.tasks.tag, minlength=len(program.tasks.tags))
    counts = [f"{n} {tag}" for tag, n in zip(program.tasks.tags, tags, strict=True) if n]
    print(f"{len(program.tasks)} tasks: {', '.join(counts)}")

    heading("7. Simulate: tasks hold streams and slots and share rates (engine/)")
    timeline = simulate(program.tasks, program.streams, program.resources)
    print(f"the last task ends after {timeline.makespan_s:.6f} s")

    heading("8. Account: where the time and the memory went (training/accounting/, training/memory/)")
    for name, seconds in breakdown(program, timeline, prepared.stages).items():
        print(f"{name:20s} {seconds:10.4f} s")
    memory = memory_of(prepared, timeline)
    print(f"peak {memory.peak_reserved_bytes / GIB:.2f} GiB reserved of {memory.capacity_bytes / GIB:.2f} GiB")

    heading("9. The same in one call, with interval, power, money and assumptions: windtunnel train")
    result = simulate_training(path, sensitivities=False)
    print(f"{result.step_time_s:.6f} s, 80 % interval {result.interval.low:.2f} to {result.interval.high:.2f} s")
    assert result.step_time_s == timeline.makespan_s
    return timeline.makespan_s


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "examples/llama3-70b-64xh100.yaml")
