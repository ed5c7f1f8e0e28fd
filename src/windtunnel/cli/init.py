"""`windtunnel init`: write a commented scenario to start from."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from windtunnel.cli import complete
from windtunnel.cli.asking import ask, on_terminal, whole
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import check_new, note, print_json, telling
from windtunnel.files.writing import write_text

MODEL, DEVICE = "meta-llama/Llama-3.1-8B", "h100-sxm-80gb"
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

# {why}
# `windtunnel plan {file}` searches the layout again (with `search.space.zero: [1, 2, 3]` ZeRO too); `auto` leaves an
# axis to the planner, a number keeps it.
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
    - replicas: {replicas}          # instances that do the same work
      plan: {{tp: {plan[tp]}}}   # devices of one instance: tp · pp · dp · cp (dp: attention data parallel, ep: experts)
      # limits: {{max_num_seqs: 256, max_num_batched_tokens: 8192, gpu_memory_utilization: 0.9}}
      # kv: {{prefix_caching: true}}
      # policy: vllm_v1    # how batches are formed; absent: the engine's own
  # router: round_robin    # random least_requests least_work power_of_two prefix_aware gang
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

_LEARNING = """\
# A learning scenario: a small task is trained for real, on the clock of the model below. Run it with:
#   windtunnel learn {file} --plot
# Losses order algorithms on the small task; they are not those of the model. Times and bytes are the model's.
# Unknown fields are errors. Quantities take units: "1 Gb/s", "40 ms".
schema_version: 1

# What one worker trains, on its own copy of the cluster; `learning: {{step_s, parameters}}` may stand for it.
model: {model}
cluster: {{device: {device}, nodes: {nodes}, devices_per_node: {per_node}}}
training: {{seq_len: {seq_len}, global_batch: {batch}, precision: bf16, framework: {framework}}}

# {why}
plan: {{tp: {plan[tp]}, pp: {plan[pp]}, vpp: {plan[vpp]}, cp: {plan[cp]}, ep: {plan[ep]}, zero: {plan[zero]}, \
mbs: {plan[mbs]}, recompute: {plan[recompute]}}}

learning:
  task: markov-lm          # what is trained; `windtunnel learn --list` names all with their knobs
  workers: 4
  steps: 1500              # local steps of each worker
  batch: 8                 # samples of one worker's step
  algorithms:              # ids, or {{id: {{knob: value}}}}
    - data_parallel
    - {{diloco: {{period: 30}}}}
    # - fedbuff            # asynchronous: the clock decides the order
  seeds: 2                 # two or more tell the noise
  # inner: adamw           # optimizer of a worker
  # lr: 0.002
  # split: {{dirichlet: 0.5}}                      # uneven data; absent: iid
  # target: {{loss: 2.35}}                         # time to target is told
  link: wan                # wan cellular-5g wifi ethernet data-centre, or {{bandwidth: 1 Gb/s, latency: 40 ms}}
  # speeds: {{lognormal: 0.3, jitter: 0.1}}        # workers that differ
  # failures: rsc-1-2024                         # workers that fail; joins: [0, 0, 600] for those that come late
  # attack: {{kind: sign_flip, workers: 1}}
"""


_RUN = """
# The whole run: `windtunnel run {file}` says days, failures, dollars and kWh.
run:
  tokens: 1T               # or steps: 100000
  failures: {failures}     # how often what breaks: {profiles}
  recovery: {{spares: {spares}}}    # hot spares: nodes that join at once
  # checkpoint: {{interval: 30 min}}
"""

_JOBS = """\
# Jobs that share a cluster. Run them with:  windtunnel cluster {file}
# Unknown fields are errors. Quantities take units: "1 h", "30 min".
schema_version: 1

# A device from the catalogue (`windtunnel devices`) in nodes, or the name of a cluster (`windtunnel clusters`).
cluster: {{device: {device}, nodes: {nodes}, devices_per_node: {per_node}}}

jobs:
  # policy: backfill       # who is next; `windtunnel techniques list` names more
  generate:
    rate_per_hour: 10
    count: 100
    classes:               # kinds of jobs: their share, devices and durations
      - {{name: tuning, share: 0.8, devices: 1, duration: 1 h}}
      - {{name: training, share: 0.2, devices: {per_node}, duration: 4 h}}
"""

_REASONING = """
# What a task is: strategies of several calls, compared by accuracy, dollars and time with `windtunnel reason {file}`.
programs:
  problems: 50
  offline: true
  strategies: [{{best_of_n: {{n: [1, 4], selector: checker}}}}]
  input_tokens: 200
  output_tokens: 300
population:
  pass_1: 0.4              # how often one attempt is right
"""


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write.")] = Path("scenario.yaml"),
    model: Annotated[
        str | None,
        typer.Option(
            help=f"Catalogue name of the model, or a config.json. Absent: asked for on a terminal, else {MODEL}.",
            autocompletion=complete.models,
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help=f"Catalogue id of the device. Absent: asked for on a terminal, else {DEVICE}.",
            autocompletion=complete.devices,
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Nodes. Absent: asked for on a terminal, else 1.", show_default=False),
    ] = None,
    devices_per_node: Annotated[int, typer.Option(min=1, help="Devices in a node.")] = 8,
    seq_len: Annotated[int, typer.Option(min=1, help="Tokens per sequence.")] = 8192,
    global_batch: Annotated[int | None, typer.Option(min=1, help="Sequences per step; absent: one per device.")] = None,
    framework: Annotated[str, typer.Option(help="Whose defaults to use.")] = "torchtitan",
    serving: Annotated[bool, typer.Option("--serving", help="A scenario to serve, not to train.")] = False,
    learning: Annotated[bool, typer.Option("--learning", help="A scenario to learn: algorithms on a task.")] = False,
    whole_run: Annotated[bool, typer.Option("--run", help="A whole run: its days and dollars.")] = False,
    jobs: Annotated[bool, typer.Option("--cluster", help="Jobs that share a cluster.")] = False,
    reason: Annotated[bool, typer.Option("--reason", help="Strategies of inference on a served model.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented scenario to start from, with a plan that fits.

    On a terminal it asks for what the options leave out of model, device and nodes.
    """
    from windtunnel import catalog
    from windtunnel.errors import BadInput

    check_new(file, force=force)
    kinds = {"serve": serving, "learn": learning, "run": whole_run, "cluster": jobs, "reason": reason}
    chosen = [name for name, given in kinds.items() if given]
    if len(chosen) > 1:
        raise BadInput("give one of --serving, --learning, --run, --cluster and --reason")
    verb = chosen[0] if chosen else "train"
    serving = verb in ("serve", "reason")
    asks = on_terminal() and not as_json
    if asks and model is None:
        model = ask("Model: a catalogue name, or the path of a config.json", MODEL, lambda text: _known(text, file))
    shown = _model(model or MODEL, file)
    if asks and device is None:
        device = ask("Device: a catalogue id", DEVICE, lambda text: catalog.device(text).id)
    size = _Size(catalog.device(device or DEVICE).id, nodes or 1, devices_per_node, global_batch, seq_len, framework)
    if verb == "cluster":
        found = _Found({}, "", True)
    elif asks and nodes is None:
        size, found = _fitting(model or MODEL, size, serving=serving)
    else:
        found = _deployment(model or MODEL, size) if serving else _plan(model or MODEL, size)
    from windtunnel.catalog.run_tables import failure_profiles
    from windtunnel.specs.run import RunSpec

    text = _TEMPLATES[verb].format(
        file=file,
        model=shown,
        device=size.device,
        nodes=size.nodes,
        per_node=devices_per_node,
        seq_len=seq_len,
        batch=size.training["global_batch"],
        framework=framework,
        plan=found.axes,
        why=found.why,
        spares=1 if size.nodes >= _NODES_WITH_A_SPARE else 0,
        replicas=size.nodes * devices_per_node // found.axes.get("tp", 1) or 1,
        failures=RunSpec.model_fields["failures"].default,
        profiles=", ".join(failure_profiles()),
    )
    would = "" if found.fits else _would_fit(model or MODEL, size, serving=serving)
    text = _of_editors(file) + _aligned(text)
    write_text(file, text)
    if as_json:
        print_json({"file": str(file), "scenario": text})
    if not found.fits:
        note(f"warning: {found.why} {would}")
        note(f"wrote {file}, which does not fit as it is; `windtunnel {'serve' if serving else 'fit'} {file}` says why")
    elif not as_json:
        note(f"wrote {file}; next: windtunnel {verb} {file}")


def _of_editors(file: Path) -> str:
    """The line by which an editor finds the schema, where there is one beside the file."""
    return f"# yaml-language-server: $schema={_SCHEMA}\n" if file.with_name(_SCHEMA).exists() else ""


def _aligned(text: str) -> str:
    """Comments after the values of neighbouring lines, in one column."""
    lines, block = text.split("\n"), list[int]()
    for at, line in enumerate([*lines, ""]):
        if _WITH_COMMENT.match(line):
            block.append(at)
        elif not line.lstrip().startswith("#"):
            found = {i: match for i in block if (match := _WITH_COMMENT.match(lines[i]))}
            short = [match for match in found.values() if len(match[1]) <= _SHORT]
            usual = Counter(match.start(2) for match in short).most_common(1)
            column = max([len(match[1]) + 2 for match in short] + [at for at, _ in usual], default=0)
            for i, match in found.items():
                lines[i] = f"{match[1]:{column}}{match[2]}" if match in short else f"{match[1]}  {match[2]}"
            block = []
    return "\n".join(lines)


_SCHEMA = "scenario.schema.json"
_SHORT = 30
"""Characters of a value up to which its comment stands in the column of its neighbours."""
_WITH_COMMENT = re.compile(r"(\s*[^\s#].*?) {2,}(# .*)")
_NODES_WITH_A_SPARE = 16
_TEMPLATES = {
    "train": _TEMPLATE,
    "run": _TEMPLATE + _RUN,
    "serve": _SERVING,
    "reason": _SERVING + _REASONING,
    "learn": _LEARNING,
    "cluster": _JOBS,
}
"""Command that the scenario is for → its text."""
_MOST_NODES, _ENOUGH_S = 64, 3.0
"""How many times the nodes are tried; seconds of a search that only has to find one plan that fits."""


def _would_fit(model: str, size: _Size, *, serving: bool) -> str:
    """On how many nodes it would fit, in words."""
    if serving:  # an instance stays within a node
        return "A device with more memory, or fewer bits of weights, would do."
    nodes = size.nodes
    while (nodes := 2 * nodes) <= _MOST_NODES * size.nodes:
        if _plan(model, replace(size, nodes=nodes), time_limit_s=_ENOUGH_S).fits:
            return f"It would on {nodes} nodes: --nodes {nodes}."
    return f"It would not on {nodes // 2} nodes either: a device with more memory would do."


@dataclass(frozen=True, slots=True)
class _Size:
    """Cluster and batch of the scenario."""

    device: str
    nodes: int
    devices_per_node: int
    global_batch: int | None
    """None: one sequence a device."""
    seq_len: int
    framework: str

    @property
    def cluster(self) -> dict[str, Any]:
        """Fields of `cluster`."""
        return {"device": self.device, "nodes": self.nodes, "devices_per_node": self.devices_per_node}

    @property
    def training(self) -> dict[str, Any]:
        """Fields of `training`."""
        batch = self.global_batch or self.nodes * self.devices_per_node
        own = {"seq_len": self.seq_len, "global_batch": batch, "precision": "bf16", "framework": self.framework}
        return own


def _fitting(model: str, size: _Size, *, serving: bool) -> tuple[_Size, _Found]:
    """Ask for nodes until a plan fits on them; the numbers offered double."""
    question, offered = f"Nodes of {size.devices_per_node} devices", 1
    while True:
        size = replace(size, nodes=ask(question, str(offered), whole))
        found = _deployment(model, size) if serving else _plan(model, size)
        if found.fits or serving:  # an instance stays within a node
            return size, found
        note(found.why)
        offered = 2 * size.nodes


@dataclass(frozen=True, slots=True)
class _Found:
    """A plan to write, and where it comes from."""

    axes: dict[str, Any]
    why: str
    """A sentence for the file."""
    fits: bool


def _known(model: str, file: Path) -> str:
    """The name or path of a model, once it can be read.

    Raises:
        BadInput: it cannot.
    """
    _model(model, file)
    return model


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


def _plan(model: str, size: _Size, time_limit_s: float | None = None) -> _Found:
    """Axes of the plan that the planner recommends, or of the best that it finds within a time."""
    from windtunnel import api
    from windtunnel.cli.plan_progress import words
    from windtunnel.errors import BadInput, Infeasible
    from windtunnel.planner.result import PlanResult

    plain: dict[str, Any] = {"tp": 1, "pp": 1, "vpp": 1, "cp": 1, "ep": 1, "zero": 3, "mbs": 1, "recompute": "full"}
    try:
        with telling("planning") as say:
            scenario = {"model": _source(model), "cluster": size.cluster, "training": size.training}
            found = api.plan(scenario, time_limit_s=time_limit_s, report=lambda p: say(words(p)))
    except Infeasible as error:
        return _Found(plain, f"No plan fits on this cluster: {error.message}. Offload may.", False)
    except BadInput as error:
        return _Found(plain, f"No plan was searched: {error.problems[0].rule}.", True)
    assert isinstance(found, PlanResult)
    taken = (found.choice.scenario if found.choice is not None else found.scenario).get("plan", {})
    axes = {name: taken.get(name, plain[name]) for name in plain}
    recompute = taken.get("recompute", {"policy": "none"})
    axes["recompute"] = recompute if isinstance(recompute, str) else _flow(recompute)
    why = f"The planner's recommendation for this model and cluster: {found.best.step_time_s:.3g} s a step."
    return _Found(axes, why, True)


def _flow(value: dict[str, Any]) -> str:
    """A mapping on one line of YAML."""
    import yaml

    from windtunnel.training.results.serialise import plain

    return str(yaml.safe_dump(plain(value), default_flow_style=True, sort_keys=False, width=10_000)).strip()


def _deployment(model: str, size: _Size) -> _Found:
    """The fewest devices of one instance on which the weights leave room for a cache."""
    from windtunnel import api
    from windtunnel.errors import WindtunnelError

    sizes = [n for n in (1, 2, 4, 8, 16) if n <= size.devices_per_node]
    for tp in sizes:
        pools = [{"plan": {"tp": tp}}]
        traffic = {"rate_per_s": 0.1, "num_requests": 4, "input_tokens": 1024, "output_tokens": 8}
        serving = {"engine": "vllm", "pools": pools, "traffic": traffic}
        try:
            api.simulate_serving({"model": _source(model), "cluster": size.cluster, "serving": serving})
        except WindtunnelError:
            continue
        return _Found({"tp": tp}, "", True)
    return _Found({"tp": sizes[-1]}, f"No instance of up to {sizes[-1]} devices holds the model.", False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    lines = (
        "init",
        "init qwen.yaml --model Qwen/Qwen3-30B-A3B --device h100-sxm-80gb --nodes 2",
        "init s.yaml --serving",
        "init r.yaml --run --nodes 16",
        "init c.yaml --cluster --nodes 8",
        "init q.yaml --reason",
        "init l.yaml --learning --model meta-llama/Llama-3.2-1B",
        "init mine.yaml --model path/to/config.json --device a100-sxm-80gb",
    )
    app.command(epilog=examples(*lines))(init)
