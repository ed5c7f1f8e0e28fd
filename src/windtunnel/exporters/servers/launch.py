"""A scenario's serving section as files that start it: servers, what stands in front, and the load to send.

What an engine cannot express is written as a comment into every file and returned; nothing is dropped silently. Numbers
that the engine would refuse when it starts are refused here, all at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.errors import BadInput, ProblemList
from windtunnel.exporters.servers import checks, kubernetes, scripts
from windtunnel.exporters.servers.autoscaler import scales
from windtunnel.exporters.servers.deployed import deployed
from windtunnel.exporters.servers.loads.base import LOADS, Target
from windtunnel.exporters.servers.naming import checkpoint
from windtunnel.exporters.servers.placing import place
from windtunnel.exporters.servers.target import SERVER_TARGETS
from windtunnel.exporters.target import options, versions
from windtunnel.exporters.wrappers import object_name
from windtunnel.specs.cluster import groups_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windtunnel.exporters.servers.deployed import Deployed
    from windtunnel.exporters.servers.target import ServerDraft
    from windtunnel.exporters.target import OptionList
    from windtunnel.scenarios.source import Source

WRAPPERS = ("none", "slurm", "kubernetes")


def server_files(
    source: Source, target: str, version: str | None, wrapper: str, overrides: Sequence[str] = ()
) -> tuple[dict[str, str], ServerDraft]:
    """The files of a deployment by name, the one to start first; and what was made of it.

    Args:
        source: a scenario.
        target: `vllm`, `sglang`, `trtllm`.
        version: of the target; absent means the scenario's own release when its option list is stored, else the newest.
        wrapper: `none`, `slurm` or `kubernetes`.
        overrides: `key=value` settings.

    Raises:
        BadInput: a scenario that cannot run; numbers that the engine refuses.
        Infeasible: weights alone leave no room for a cache.
    """
    d = deployed(source, overrides)
    engine, problems = SERVER_TARGETS.get(target), ProblemList()
    known = options(target, version or _release(d, target))
    engine.check(d, problems)
    checks.rules(d, target, known.version, problems)
    problems.raise_if_any()
    draft = engine.write(d, known)
    _compare(d, known, draft, target, engine.title)
    for technique in d.techniques:
        options_of = engine.switches.get(technique, ())
        done = [draft.set(server, option) for server in draft.servers for option in options_of]
        if not done or not all(done):
            draft.lacks(f"technique {technique}: {engine.title} has no switch for it")
    scaler = scales(d, target, draft) if wrapper == "kubernetes" else None
    _beyond(d, draft, {"autoscale"} if wrapper == "kubernetes" else set())
    parts = place(draft, d.cluster)
    for pool in d.pools if len(groups_of(d.cluster)) > 1 else ():
        last = pool.first_node + pool.cluster.nodes - 1
        draft.note(f"pool {pool.name}: nodes {pool.first_node} to {last} are those with {pool.cluster.device.id}")
    model = checkpoint(d, draft)
    title = f"{engine.title} {known.version}: {d.name} on {sum(p.spec.replicas * p.devices for p in d.pools)} devices"
    files: dict[str, str] = {}
    for server in draft.servers:
        files[f"{target}-{server.pool.name}.sh"] = scripts.pool_script(title, draft, server, model)
        files |= server.files
    if draft.entry is not None and parts:
        files[f"{target}-entry.sh"] = scripts.entry_script(title, draft, parts)
    if parts:
        files = {"serve.sh": scripts.node_script(title, draft, target, parts), **files}
    name = object_name(f"{target}-{d.name}")[:40].strip("-")
    if wrapper == "slurm" and parts:
        files = {"serve.sbatch": scripts.slurm(title, draft, name, parts, d.cluster), **files}
    elif wrapper == "kubernetes":
        mounted = {name: text for name, text in files.items() if name not in ("serve.sh", f"{target}-entry.sh")}
        files = {"serve.yaml": kubernetes.objects(title, draft, target, name, mounted, scaler), **files}
    return files | _loads(d, draft, engine.loads, known.version, model), draft


WRITTEN = {
    "serving": {
        "engine",
        "engine_version",
        "precision",
        "pools",
        "router",
        "traffic",
        "slo",
        "speculation",
        "streaming",
        "expert_skew",
        "expert_load",
    },
    "pool": {"role", "group", "replicas", "plan", "limits", "kv", "policy", "queue", "admission"},
    "speculation": {
        "method",
        "tokens",
        "acceptance",
        "variation",
        "acceptance_std",
        "draft",
        "draft_tp",
        "draft_weights",
    },
    "kv": {"block_size", "prefix_caching", "num_blocks", "swap_space_bytes", "tiers", "tier_loading"},
}
"""Fields that targets write, or say themselves that they cannot."""


def _beyond(d: Deployed, draft: ServerDraft, told: set[str]) -> None:
    """Say what else the scenario states, `told` apart: no launch file of an engine holds it."""
    said = [("serving", name) for name in sorted(d.serving.model_fields_set - WRITTEN["serving"] - told)]
    for pool in d.pools:
        said += [(pool.where, name) for name in sorted(pool.spec.model_fields_set - WRITTEN["pool"])]
        said += [(f"{pool.where}.kv", name) for name in sorted(pool.spec.kv.model_fields_set - WRITTEN["kv"])]
    if d.serving.speculation is not None:
        more = d.serving.speculation.model_fields_set - WRITTEN["speculation"]
        said += [("serving.speculation", name) for name in sorted(more)]
    if d.serving.expert_load is not None:
        routing = d.serving.expert_load.model_fields_set & {"affinity", "placement", "coherent"}
        said += [("serving.expert_load", name) for name in sorted(routing)]
    for where, name in said:
        draft.lacks(f"{where}.{name}: not in launch files")


def _release(d: Deployed, target: str) -> str | None:
    """The scenario's own release, where its options are known."""
    own = d.serving.engine_version.lstrip("v")
    return own if d.serving.engine == target and own in versions(target) else None


def _compare(d: Deployed, known: OptionList, draft: ServerDraft, target: str, title: str) -> None:
    """Say where what was simulated is not what will run."""
    engine, release = d.serving.engine, d.serving.engine_version
    if engine != target:
        draft.note(f"{engine} was simulated, {title} will run: set serving.engine to {target} to predict it")
    elif release and release.lstrip("v") != known.version:
        draft.note(f"release {release} was simulated, the options are those of {known.version}")


def _loads(d: Deployed, draft: ServerDraft, names: tuple[str, ...], version: str, model: str) -> dict[str, str]:
    """`load.sh` by the engine's own generator, `load-<other>.sh` by the others, and the requests that they replay."""
    out: dict[str, str] = {}
    port = draft.entry.port if draft.entry is not None else draft.servers[0].port
    for i, name in enumerate(names):
        generator = LOADS.get(name)
        known = options(name, version if version in versions(name) else None)
        made = generator.write(Target(d, known, model, port))
        head = [f"{generator.title} {known.version}: the traffic of {d.name}"]
        if made.unsupported:
            head += ["not expressible, left out:", *(f"- {item}" for item in made.unsupported)]
        if made.notes:
            head += ["notes:", *(f"- {item}" for item in made.notes)]
        out["load.sh" if i == 0 else f"load-{name}.sh"] = made.script(head)
        out |= made.files
        for item in made.unsupported:
            draft.lacks(f"{generator.title}: {item}")
    return out


def check_wrapper(wrapper: str) -> str:
    """The wrapper for servers; torchrun, the default of training, is none.

    Raises:
        BadInput: unknown.
    """
    from windtunnel.errors import Problem, nearest_name

    if wrapper == "torchrun":
        return "none"
    if wrapper not in WRAPPERS:
        rule = f"must be one of {', '.join(WRAPPERS)}"
        raise BadInput(Problem("wrapper", rule, wrapper, nearest=nearest_name(wrapper, WRAPPERS)))
    return wrapper
