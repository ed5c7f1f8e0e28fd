"""`windtunnel init`: write a commented scenario to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import note, print_json, progress

_TEMPLATE = """\
# yaml-language-server: $schema={schema}
# A training scenario. Predict it with:  windtunnel train {file}
# Unknown fields are errors. Quantities take units: "3.35 TB/s", "400 Gb/s", "80 GiB", "12 us".
schema_version: 1

# A catalogue name (`windtunnel models`), {{config: path/config.json}}, or Hugging Face fields with `family:`.
model: {model}

# A device from the catalogue (`windtunnel devices`) in nodes, or the name of a cluster (`windtunnel clusters`).
cluster: {{device: {device}, nodes: {nodes}, devices_per_node: {per_node}}}

training:
  seq_len: {seq_len}          # tokens per sequence
  global_batch: {batch}       # sequences per optimizer step
  precision: bf16          # fp32 tf32 fp16 bf16 fp8 fp8_block mxfp8 nvfp4 …
  framework: {framework}   # sets the defaults: what overlaps, which attention, fp32 or bf16 gradients
  # optimizer: adam
  # attention: auto        # unfused flash1 flash2 flash3 cudnn sdpa

# {why}
# `windtunnel plan {file}` searches every axis again; `auto` leaves an axis to the planner, a number keeps it.
plan:
  tp: {plan[tp]}    # tensor parallel; sequence parallelism (sp) is on when tp > 1
  pp: {plan[pp]}    # pipeline stages
  vpp: {plan[vpp]}    # model chunks per stage (interleaved schedule)
  cp: {plan[cp]}    # context parallel
  ep: {plan[ep]}    # expert parallel; divides dp·cp·tp/etp
  dp: auto    # devices / (tp·pp·cp)
  zero: {plan[zero]}    # 0 to 3; 3 is FSDP with full sharding
  mbs: {plan[mbs]}    # sequences per micro-batch
  recompute: {plan[recompute]}    # none selective full, or {{policy: modules, modules: [core_attn, mlp]}}
  # schedule: 1f1b         # gpipe 1f1b interleaved_1f1b zb_h1 … (`windtunnel techniques list`)

techniques: []             # catalogue ids, or {{id: {{knob: value}}}}
"""

_SERVING = """\
# yaml-language-server: $schema={schema}
# A serving scenario. Simulate it with:  windtunnel serve {file}
# Its latency-throughput curve and knee: windtunnel serve {file} --sweep rate=0.5..8 --report report.html
# Unknown fields are errors. Quantities take units: "80 GiB", "50 ms".
schema_version: 1

# A catalogue name (`windtunnel models`), {{config: path/config.json}}, or Hugging Face fields with `family:`.
model: {model}

# A device from the catalogue (`windtunnel devices`) in nodes, or the name of a cluster (`windtunnel clusters`).
cluster: {{device: {device}, nodes: {nodes}, devices_per_node: {per_node}}}

serving:
  engine: vllm             # vllm sglang trtllm lmdeploy generic
  # engine_version: 0.10.0 # decides defaults, memory rule and coefficients; absent: the newest that is known
  # precision: {{weights: fp8, kv_cache: fp8}}   # weights: bf16 fp8 int8 w4a16 w4a8 nvfp4 mxfp4 q4_0 …
  pools:
    - replicas: 1          # instances that do the same work
      plan: {{tp: {tp}}}        # devices of one instance: tp · pp · dp · cp (dp: attention data parallel, ep: experts)
      # limits: {{max_num_seqs: 256, max_num_batched_tokens: 8192, gpu_memory_utilization: 0.9}}
      # kv: {{prefix_caching: true}}
      # policy: vllm_v1    # how batches are formed; absent: the engine's own
  # router: round_robin    # random least_requests least_work power_of_two prefix_aware
  traffic:
    rate_per_s: 2          # or concurrency: 64 (closed loop), or offline: true, or trace: FILE
    # process: gamma       # poisson gamma constant bursty diurnal
    num_requests: 2000
    input_tokens: {{distribution: lognormal, mean: 1024, cv: 0.8, max: 8192}}    # or one number
    output_tokens: {{distribution: lognormal, mean: 256, cv: 0.8, max: 2048}}
    # shared_prefix_tokens: 200                  # a system prompt
    seed: 0
  slo: {{ttft_s: 1.0, tpot_s: 50 ms, percentile: 0.9}}   # what counts as good; goodput and the knee read it
"""


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write.")] = Path("scenario.yaml"),
    model: Annotated[
        str, typer.Option(help="Catalogue name of the model, or a config.json.", autocompletion=complete.models)
    ] = "meta-llama/Llama-3.1-8B",
    device: Annotated[
        str, typer.Option(help="Catalogue id of the device.", autocompletion=complete.devices)
    ] = "h100-sxm-80gb",
    nodes: Annotated[int, typer.Option(min=1, help="Nodes.")] = 1,
    devices_per_node: Annotated[int, typer.Option(min=1, help="Devices in a node.")] = 8,
    seq_len: Annotated[int, typer.Option(min=1, help="Tokens per sequence.")] = 8192,
    global_batch: Annotated[int | None, typer.Option(min=1, help="Sequences per step; absent: one per device.")] = None,
    framework: Annotated[str, typer.Option(help="Whose defaults to use.")] = "torchtitan",
    serving: Annotated[bool, typer.Option("--serving", help="A scenario to serve, not to train.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented scenario to start from, with a plan that fits."""
    from windtunnel import catalog
    from windtunnel.errors import BadInput

    device = catalog.device(device).id
    shown = _model(model, file)
    if file.exists() and not force:
        raise BadInput(f"{file}: exists already; --force overwrites it")
    batch = global_batch or nodes * devices_per_node
    cluster = {"device": device, "nodes": nodes, "devices_per_node": devices_per_node}
    fields: dict[str, Any] = {
        "file": file,
        "schema": "scenario.schema.json",
        "model": shown,
        "device": device,
        "nodes": nodes,
        "per_node": devices_per_node,
        "seq_len": seq_len,
        "batch": batch,
        "framework": framework,
    }
    if serving:
        text = _SERVING.format(tp=_smallest_tp(model, cluster), **fields)
    else:
        training = {"seq_len": seq_len, "global_batch": batch, "precision": "bf16", "framework": framework}
        plan, why = _plan(model, cluster, training)
        text = _TEMPLATE.format(plan=plan, why=why, **fields)
    file.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"file": str(file), "scenario": text})
    else:
        note(f"wrote {file}; next: windtunnel {'serve' if serving else 'train'} {file}")


def _is_file(model: str) -> bool:
    return Path(model).suffix == ".json" or Path(model).is_dir()


def _model(model: str, file: Path) -> str:
    """How the scenario names the model: a catalogue name, or the path of a config relative to the scenario.

    Raises:
        BadInput: no such model or file, or a config that cannot be read.
    """
    if not _is_file(model):
        from windtunnel import catalog

        return catalog.model(model).name
    import os

    from windtunnel.importers.hf_config import from_hf_config

    from_hf_config(model)
    path = Path(model) / "config.json" if Path(model).is_dir() else Path(model)
    return f"{{config: {os.path.relpath(path.resolve(), file.resolve().parent)}}}"


def _source(model: str) -> Any:
    """The model as a scenario field that can be read from anywhere."""
    if not _is_file(model):
        return model
    path = Path(model) / "config.json" if Path(model).is_dir() else Path(model)
    return {"config": str(path.resolve())}


def _plan(model: str, cluster: dict[str, Any], training: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Axes of the plan that the planner recommends, and a sentence on where they come from."""
    from windtunnel import api
    from windtunnel.errors import BadInput, Infeasible
    from windtunnel.planner.result import PlanResult

    plain: dict[str, Any] = {"tp": 1, "pp": 1, "vpp": 1, "cp": 1, "ep": 1, "zero": 3, "mbs": 1, "recompute": "full"}
    try:
        with progress("planning"):
            found = api.plan({"model": _source(model), "cluster": cluster, "training": training})
    except Infeasible as error:
        return plain, f"No plan fits on this cluster: {error.message}. More nodes, or offload, may."
    except BadInput as error:
        return plain, f"No plan was searched: {error.problems[0].rule}."
    assert isinstance(found, PlanResult)
    taken = (found.choice.scenario if found.choice is not None else found.scenario).get("plan", {})
    axes = {name: taken.get(name, plain[name]) for name in plain}
    recompute = taken.get("recompute", {"policy": "none"})
    axes["recompute"] = recompute if isinstance(recompute, str) else _flow(recompute)
    return axes, f"The planner's recommendation for this model and cluster: {found.best.step_time_s:.3g} s a step."


def _flow(value: dict[str, Any]) -> str:
    """A mapping on one line of YAML."""
    import yaml

    from windtunnel.training.results.serialise import plain

    return str(yaml.safe_dump(plain(value), default_flow_style=True, sort_keys=False, width=10_000)).strip()


def _smallest_tp(model: str, cluster: dict[str, Any]) -> int:
    """The fewest devices of one instance on which the weights leave room for a cache."""
    from windtunnel import api
    from windtunnel.errors import WindtunnelError

    sizes = [n for n in (1, 2, 4, 8, 16) if n <= cluster["devices_per_node"]]
    for tp in sizes:
        pools = [{"plan": {"tp": tp}}]
        traffic = {"rate_per_s": 0.1, "num_requests": 4, "input_tokens": 1024, "output_tokens": 8}
        serving = {"engine": "vllm", "pools": pools, "traffic": traffic}
        try:
            api.simulate_serving({"model": _source(model), "cluster": cluster, "serving": serving})
        except WindtunnelError:
            continue
        return tp
    return sizes[-1]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    lines = (
        "init",
        "init qwen.yaml --model Qwen/Qwen3-30B-A3B --device h100-sxm-80gb --nodes 2",
        "init s.yaml --serving",
        "init mine.yaml --model path/to/config.json --device a100-sxm-80gb",
    )
    app.command(epilog=examples(*lines))(init)
