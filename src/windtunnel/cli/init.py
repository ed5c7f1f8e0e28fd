"""`windtunnel init`: write a commented scenario to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import note, print_json

_TEMPLATE = """\
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

plan:
  tp: 1                    # tensor parallel; sequence parallelism (sp) is on when tp > 1
  pp: 1                    # pipeline stages
  # vpp: 1                 # model chunks per stage (interleaved schedule)
  cp: 1                    # context parallel
  # ep: 1                  # expert parallel; divides dp·cp·tp/etp
  dp: auto                 # devices / (tp·pp·cp)
  zero: 3                  # 0 to 3; 3 is FSDP with full sharding
  mbs: 1                   # sequences per micro-batch
  recompute: {{policy: none}}   # none selective full, or {{policy: modules, modules: [core_attn, mlp]}}
  # schedule: 1f1b         # gpipe 1f1b interleaved_1f1b zb_h1 … (`windtunnel techniques list`)

techniques: []             # catalogue ids, or {{id: {{knob: value}}}}
"""

_SERVING = """\
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
        str, typer.Option(help="Catalogue name of the model.", autocompletion=complete.models)
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
    """Write a commented scenario to start from."""
    from windtunnel import catalog
    from windtunnel.errors import BadInput

    model, device = catalog.model(model).name, catalog.device(device).id
    if file.exists() and not force:
        raise BadInput(f"{file}: exists already; --force overwrites it")
    batch = global_batch or nodes * devices_per_node
    text = (_SERVING if serving else _TEMPLATE).format(
        tp=min(devices_per_node, 8),
        file=file,
        model=model,
        device=device,
        nodes=nodes,
        per_node=devices_per_node,
        seq_len=seq_len,
        batch=batch,
        framework=framework,
    )
    file.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"file": str(file), "scenario": text})
    else:
        note(f"wrote {file}; next: windtunnel {'serve' if serving else 'train'} {file}")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    lines = (
        "init",
        "init qwen.yaml --model Qwen/Qwen3-30B-A3B --device h100-sxm-80gb --nodes 2",
        "init s.yaml --serving",
    )
    app.command(epilog=examples(*lines))(init)
