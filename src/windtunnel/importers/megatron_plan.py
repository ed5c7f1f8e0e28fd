"""The work and the plan of Megatron-LM arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from windtunnel.files.parsing import whole_number
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.switches import read_switches

if TYPE_CHECKING:
    from windtunnel.importers.megatron_flags import Flags

DEFAULT = "Megatron-LM's default"
RECIPES = {"delayed": "fp8", "tensorwise": "fp8", "blockwise": "fp8_block", "mxfp8": "mxfp8"}
ATTENTION = {"flash": "flash2", "fused": "cudnn", "unfused": "unfused", "local": "unfused", "auto": "auto"}
OPTIMIZERS = {"adam": "adam", "sgd": "momentum", "muon": "muon", "dist_muon": "muon", "lion": "lion"}
SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
MODULES = {
    "core_attn": "core_attn",
    "moe_act": "moe_act",
    "layernorm": "norm",
    "mla_up_proj": "mla_up_proj",
    "mlp": "mlp",
    "moe": "moe",
    "shared_experts": "shared_experts",
}
CP_KINDS = {"p2p": "ring", "a2a": "all_to_all", "allgather": "all_gather", "a2a+p2p": "hybrid"}
GRAPHS = {
    "full": "full",
    "full_iteration": "full",
    "attn": "attention",
    "moe": "moe",
    "moe_preprocess moe_router": "moe",
}
LEGACY = ("DDP-impl", "checkpoint-activations", "activations-checkpoint-method", "use-legacy-models")
_MOST_OF_A_LAYOUT = 100_000
"""Letters of a layout, its repetitions written out: one a layer."""
DEEPSPEED = ("deepspeed", "deepspeed_config", "deepspeed-config", "zero-stage", "deepspeed-activation-checkpointing")


def read_training(launch: Launch, flags: Flags, wanted: Wanted) -> None:
    """Sequence length, precision, software and its switches."""
    if wanted.seq_len is not None:
        launch.set("training.seq_len", wanted.seq_len, "--seq-len of windtunnel import")
        flags.set_aside("seq-length")
    elif "seq-length" not in flags.given and flags.take("training.seq_len", "encoder-seq-length") is not None:
        pass
    elif flags.take("training.seq_len", "seq-length") is None and "seq-length" not in flags.given:
        launch.wrong("--seq-length", "is required, or --seq-len for windtunnel import")
    flags.take("training.decoder_seq_len", "decoder-seq-length")
    if wanted.global_batch is not None:
        launch.set("training.global_batch", wanted.global_batch, "--global-batch of windtunnel import")
        flags.set_aside("global-batch-size")
    else:
        flags.take("training.global_batch", "global-batch-size")
    _precision(launch, flags)
    deepspeed = any(name in flags.given for name in DEEPSPEED)
    flags.present("deepspeed", "deepspeed-activation-checkpointing")
    if wanted.framework:
        launch.set("training.framework", wanted.framework, "--framework of windtunnel import")
    elif deepspeed:
        launch.assume("training.framework", "megatron_deepspeed", "the script passes DeepSpeed options")
    else:
        launch.assume("training.framework", "megatron_core", "the script does not say its release")
        old = [name for name in LEGACY if name in flags.given]
        if old:
            launch.leave(f"--{old[0]}", "", flags.line(old[0]), "an option of older releases; --framework says which")
            flags.set_aside(*old)
    name = flags.text("optimizer", choices=tuple(OPTIMIZERS))
    if name is not None:
        launch.set("training.optimizer", OPTIMIZERS[name], "--optimizer", flags.line("optimizer"))
    backend = flags.text("attention-backend", choices=tuple(ATTENTION))
    if backend is not None and backend != "auto":
        launch.set("training.attention", ATTENTION[backend], "--attention-backend", flags.line("attention-backend"))
    release = flags.text("flash-attention-version", choices=("2", "3", "4"))
    if release in ("2", "3"):
        line = flags.line("flash-attention-version")
        launch.set("training.attention", f"flash{release}", "--flash-attention-version", line)
    elif backend == "flash":
        why = "--attention-backend flash does not say which FlashAttention"
        launch.assumed.append(("training.attention", "flash2", why))
    flags.switch("training.attention", "flash2", "use-flash-attn", "use-flash-attn-v2")
    flags.switch("training.fused_rope", False, "no-rope-fusion")
    flags.switch("training.fused_rope", True, "apply-rope-fusion")
    flags.switch("training.padded_vocab", False, "no-pad-vocab-size", "disable-pad-vocab-size")
    flags.switch("training.grad_reduce_precision", "bf16", "grad-reduce-in-bf16")
    if not flags.switch("training.fused_cross_entropy", True, "cross-entropy-loss-fusion"):
        launch.set("training.fused_cross_entropy", False, f"no --cross-entropy-loss-fusion: {DEFAULT}")
    rates = [flags.real("attention-dropout"), flags.real("hidden-dropout")]
    said = "--attention-dropout, --hidden-dropout" if None not in rates else f"{DEFAULT} of dropout is 0.1"
    if any(rate is None or rate > 0 for rate in rates):
        launch.set("training.dropout", True, said)
    _graphs(launch, flags)
    if "num-experts" in flags.given:
        _dispatcher(launch, flags)


def _precision(launch: Launch, flags: Flags) -> None:
    if not (flags.switch("training.precision", "bf16", "bf16") or flags.switch("training.precision", "fp16", "fp16")):
        launch.set("training.precision", "fp32", f"neither --bf16 nor --fp16: {DEFAULT}")
    if "fp8-hybrid" in flags.given or "fp8-e4m3" in flags.given:
        flags.switch("training.precision", "fp8", "fp8-hybrid", "fp8-e4m3")
    recipe = flags.text("fp8-recipe", choices=tuple(RECIPES)) or "delayed"
    if flags.text("fp8-format", choices=("e4m3", "hybrid")) is not None:
        said = "--fp8-format, --fp8-recipe" if "fp8-recipe" in flags.given else "--fp8-format"
        launch.set("training.precision", RECIPES[recipe], said, flags.line("fp8-format"))
    if flags.text("fp4-format", choices=("e2m1",)) is not None:
        flags.set_aside("fp4-recipe")
        launch.set("training.precision", "nvfp4", "--fp4-format", flags.line("fp4-format"))


def _graphs(launch: Launch, flags: Flags) -> None:
    impl = flags.text("cuda-graph-impl", choices=("none", "local", "transformer_engine", "full_iteration"))
    old = flags.present("enable-cuda-graph", "external-cuda-graph")
    name = "cuda-graph-scope" if "cuda-graph-scope" in flags.given else "cuda-graph-modules"
    scope = sorted(flags.texts(name) or [])
    line = flags.line(name) or flags.line("cuda-graph-impl") or flags.line("enable-cuda-graph")
    if impl in (None, "none") and not old:
        if scope:
            launch.leave(f"--{name}", " ".join(scope), line, "no graphs without --cuda-graph-impl")
        return
    kind = "full" if impl == "full_iteration" else GRAPHS.get(" ".join(scope)) if scope else "layer"
    if kind is None:
        launch.leave(f"--{name}", " ".join(scope), line, "a scenario captures attention, moe, layer or full")
        return
    launch.set("training.cuda_graphs", kind, f"--{name}" if scope else "--cuda-graph-impl", line)


def _dispatcher(launch: Launch, flags: Flags) -> None:
    kind = flags.text("moe-token-dispatcher-type", choices=("allgather", "alltoall", "flex", "alltoall_seq"))
    line = flags.line("moe-token-dispatcher-type")
    backend = flags.text("moe-flex-dispatcher-backend", choices=("deepep", "hybridep"))
    deepep = flags.present("moe-enable-deepep")
    if kind is None:
        launch.set("training.moe_dispatcher", "allgather", f"no --moe-token-dispatcher-type: {DEFAULT}")
    elif kind == "flex":
        launch.set("training.moe_dispatcher", backend or "deepep", "--moe-token-dispatcher-type flex", line)
        if backend is None and not deepep:
            launch.assumed.append(("training.moe_dispatcher", "deepep", "flex without a backend"))
    else:
        launch.set("training.moe_dispatcher", kind.removesuffix("_seq"), "--moe-token-dispatcher-type", line)
    if not flags.switch("training.fused_permute", True, "moe-permute-fusion"):
        launch.set("training.fused_permute", False, f"no --moe-permute-fusion: {DEFAULT}")


def read_plan(launch: Launch, flags: Flags, wanted: Wanted, devices: int | None) -> None:
    """Axes, sharding, schedule, recomputation, offload, overlap."""
    tp = flags.take("plan.tp", "tensor-model-parallel-size") or 1
    flags.present("sequence-parallel")
    if tp > 1:
        on, line = "sequence-parallel" in flags.given, flags.line("sequence-parallel")
        launch.set("plan.sp", on, "--sequence-parallel" if on else f"no --sequence-parallel: {DEFAULT}", line)
    pp = flags.take("plan.pp", "pipeline-model-parallel-size") or 1
    vpp = _chunks(launch, flags, pp)
    cp = _context(launch, flags)
    _experts(launch, flags, tp)
    launch.set("plan.dp", "auto", "devices / (tp · pp · cp)")
    mbs = flags.take("plan.mbs", "micro-batch-size") if wanted.mbs is None else wanted.mbs
    if wanted.mbs is not None:
        flags.set_aside("micro-batch-size")
        launch.set("plan.mbs", wanted.mbs, "--mbs of windtunnel import")
    if mbs is None and "micro-batch-size" not in flags.given:
        launch.wrong("--micro-batch-size", "is required")
    inner = tp * pp * cp
    if "training.global_batch" not in launch.fields and "global-batch-size" not in flags.given:
        if mbs and devices and devices % inner == 0:
            why = "no --global-batch-size: Megatron-LM takes one micro-batch per replica"
            launch.assume("training.global_batch", mbs * (devices // inner), why)
    launch.check_batch(devices, inner)
    _sharding(launch, flags, devices, inner, cp)
    _recompute(launch, flags, vpp)
    if flags.present("optimizer-cpu-offload"):
        share = flags.real("optimizer-offload-fraction")
        line = flags.line("optimizer-cpu-offload")
        launch.set("plan.offload.optimizer", 1.0 if share is None else share, "--optimizer-cpu-offload", line)
    flags.present("overlap-cpu-optimizer-d2h-h2d")
    _offload(launch, flags)
    _overlap(launch, flags, tp, pp)
    read_switches("megatron", lambda path, option: flags.take(path, option.removeprefix("--")))
    if flags.present("use-tp-pp-dp-mapping"):
        line = flags.line("use-tp-pp-dp-mapping")
        launch.set("plan.order", ["tp", "cp", "ep", "pp", "dp"], "--use-tp-pp-dp-mapping", line)
    for field, name in (("embedding_as_layer", "embedding"), ("loss_as_layer", "loss")):
        flags.switch(f"plan.{field}", True, f"account-for-{name}-in-pipeline-split")
    _stages(launch, flags, pp, vpp)


def _chunks(launch: Launch, flags: Flags, pp: int) -> int:
    """Chunks a stage."""
    by_count = flags.number("num-virtual-stages-per-pipeline-rank")
    by_layers = flags.number("num-layers-per-virtual-pipeline-stage")
    if by_count is not None:
        line = flags.line("num-virtual-stages-per-pipeline-rank")
        launch.set("plan.vpp", by_count, "--num-virtual-stages-per-pipeline-rank", line)
        return by_count
    if by_layers is None:
        return 1
    depth, line = flags.number("num-layers") or 0, flags.line("num-layers-per-virtual-pipeline-stage")
    ends = sum(flags.present(f"account-for-{name}-in-pipeline-split") for name in ("embedding", "loss"))
    if (depth + ends) % (pp * by_layers):
        rule = f"pp · it = {pp * by_layers} must divide the {depth + ends} layers"
        launch.wrong("--num-layers-per-virtual-pipeline-stage", rule, by_layers, line)
        return 1
    vpp = (depth + ends) // (pp * by_layers)
    launch.set("plan.vpp", vpp, "--num-layers-per-virtual-pipeline-stage", line)
    return vpp


def _context(launch: Launch, flags: Flags) -> int:
    cp = flags.take("plan.cp", "context-parallel-size") or 1
    kinds = flags.texts("cp-comm-type") or []
    sizes = flags.texts("hierarchical-context-parallel-sizes") or []
    if cp == 1 or not kinds:
        return cp
    line = flags.line("cp-comm-type")
    if len(set(kinds)) > 1 or kinds[0] not in CP_KINDS:
        launch.wrong(
            "--cp-comm-type", f"must be one of {', '.join(CP_KINDS)}, the same for all layers", " ".join(kinds), line
        )
        return cp
    launch.set("plan.cp_kind", CP_KINDS[kinds[0]], "--cp-comm-type", line)
    if kinds[0] == "a2a+p2p" and sizes and (size := whole_number(sizes[0])) is not None:
        where = flags.line("hierarchical-context-parallel-sizes")
        launch.set("plan.cp_all_to_all", size, "--hierarchical-context-parallel-sizes", where)
    return cp


def _experts(launch: Launch, flags: Flags, tp: int) -> None:
    ep = flags.take("plan.ep", "expert-model-parallel-size")
    etp = flags.take("plan.etp", "expert-tensor-parallel-size")
    if "num-experts" in flags.given and etp is None and tp > 1:
        launch.set("plan.etp", tp, f"no --expert-tensor-parallel-size: {DEFAULT} is tp")
    elif ep is not None and ep > 1 and "num-experts" not in flags.given:
        launch.leave("--expert-model-parallel-size", str(ep), flags.line("expert-model-parallel-size"), "no experts")
        del launch.fields["plan.ep"]


def _sharding(launch: Launch, flags: Flags, devices: int | None, inner: int, cp: int) -> None:
    strategy = flags.text("data-parallel-sharding-strategy", choices=tuple(SHARDING))
    instances = flags.number("num-distributed-optimizer-instances")
    stage = flags.number("zero-stage", least=0)
    distributed = flags.present("use-distributed-optimizer")
    if flags.present("use-megatron-fsdp", "use-custom-fsdp"):
        where = flags.line("data-parallel-sharding-strategy") or flags.line("use-megatron-fsdp")
        launch.set("plan.zero", SHARDING[strategy or "no_shard"], "--data-parallel-sharding-strategy", where)
        if strategy == "optim_grads_params":
            launch.set("plan.reshard_after_forward", True, "Megatron-FSDP gathers again for backward", where)
        if strategy is None:
            launch.assumed.append(("plan.zero", "0", "no --data-parallel-sharding-strategy: default no_shard"))
    elif flags.switch("plan.zero", 3, "use-torch-fsdp2"):
        pass
    elif stage is not None:
        launch.set("plan.zero", stage, "--zero-stage", flags.line("zero-stage"))
    elif distributed:
        launch.set("plan.zero", 1, "--use-distributed-optimizer", flags.line("use-distributed-optimizer"))
    else:
        launch.set("plan.zero", 0, f"no --use-distributed-optimizer: {DEFAULT}")
    if instances is not None and instances > 1 and devices:
        ranks, line = devices // inner * cp, flags.line("num-distributed-optimizer-instances")
        if ranks % instances:
            launch.wrong("--num-distributed-optimizer-instances", f"must divide dp · cp = {ranks}", instances, line)
        else:
            launch.set("plan.shard_group", ranks // instances, "--num-distributed-optimizer-instances", line)


def _recompute(launch: Launch, flags: Flags, vpp: int) -> None:
    kind = flags.text("recompute-granularity", choices=("full", "selective"))
    line = flags.line("recompute-granularity")
    if flags.present("recompute-activations"):
        kind, line = kind or "selective", line or flags.line("recompute-activations")
    if kind is None and flags.present("checkpoint-activations", "activations-checkpoint-method"):
        flags.set_aside("activations-checkpoint-method")
        kind, line = "full", flags.line("checkpoint-activations") or flags.line("activations-checkpoint-method")
    method = flags.text("recompute-method", choices=("uniform", "block"))
    layers = flags.number("recompute-num-layers")
    modules = flags.texts("recompute-modules")
    if kind is None:
        launch.set("plan.recompute.policy", "none", f"no --recompute-granularity: {DEFAULT}")
    elif kind == "full":
        launch.set("plan.recompute.policy", "full", "--recompute-granularity", line)
        where = flags.line("recompute-num-layers")
        if method == "block" and layers is not None:
            launch.set("plan.recompute.num_layers", layers * vpp, "--recompute-num-layers of each chunk", where)
        elif layers is not None and layers > 1:
            launch.leave("--recompute-num-layers", str(layers), where, "a scenario keeps the input of every layer")
    elif modules:
        wrong = [module for module in modules if module not in MODULES]
        for module in wrong:
            rule = f"must be of {', '.join(MODULES)}"
            launch.wrong("--recompute-modules", rule, module, flags.line("recompute-modules"))
        launch.set("plan.recompute.policy", "modules", "--recompute-granularity", line)
        names = [MODULES[module] for module in modules if module in MODULES]
        launch.set("plan.recompute.modules", names, "--recompute-modules", flags.line("recompute-modules"))
    else:
        launch.set("plan.recompute.policy", "selective", "--recompute-granularity: core attention", line)


def _offload(launch: Launch, flags: Flags) -> None:
    """Activations in host memory: of whole layers, or the inputs of named modules."""
    layers = flags.number("cpu-offloading-num-layers", least=0)
    modules = flags.texts("offload-modules")
    share = flags.real("activation-offload-fraction")
    depth = flags.number("num-layers")
    if layers and depth:
        share, line = min(layers / depth, 1.0), flags.line("cpu-offloading-num-layers")
        launch.set("plan.offload.activations", share, "--cpu-offloading-num-layers of --num-layers", line)
    elif flags.present("fine-grained-activation-offloading"):
        line = flags.line("fine-grained-activation-offloading")
        said = "--activation-offload-fraction" if share is not None else "--fine-grained-activation-offloading"
        launch.set("plan.offload.activations", 1.0 if share is None else share, said, line)
        why = f"stands for the inputs of {', '.join(modules or [])}: a scenario offloads layers whole"
        launch.assumed.append(("plan.offload.activations", "all a layer keeps", why))


def _overlap(launch: Launch, flags: Flags, tp: int, pp: int) -> None:
    pairs = [("grad_reduce", "overlap-grad-reduce"), ("param_gather", "overlap-param-gather")]
    if tp > 1:  # absent: the bulk overlap that layers have without user buffers stays
        flags.switch("plan.overlap.tp", True, "tp-comm-overlap")
    pairs += [("moe_a2a", "overlap-moe-expert-parallel-comm")] if "num-experts" in flags.given else []
    for field, name in pairs:
        if not flags.switch(f"plan.overlap.{field}", True, name):
            launch.set(f"plan.overlap.{field}", False, f"no --{name}: {DEFAULT}")
    flags.present("tp-comm-overlap", "overlap-moe-expert-parallel-comm")
    if flags.present("no-overlap-p2p-communication") and pp > 1:
        line = flags.line("no-overlap-p2p-communication")
        launch.set("plan.overlap.p2p", False, "--no-overlap-p2p-communication", line)


def _stages(launch: Launch, flags: Flags, pp: int, vpp: int) -> None:
    """Uneven splits: a written layout, or fewer layers at the ends."""
    layout = flags.text("pipeline-model-parallel-layout")
    if layout is not None:
        line = flags.line("pipeline-model-parallel-layout")
        counts = layout_counts(layout)
        if counts is None or len(counts) % pp:
            rule = f"must be stages of E, t, m and L between |, a multiple of pp = {pp}"
            launch.wrong("--pipeline-model-parallel-layout", rule, layout, line)
            return
        launch.set("plan.vpp", len(counts) // pp, "--pipeline-model-parallel-layout", line)
        launch.set("plan.stage_layers", counts, "--pipeline-model-parallel-layout", line)
        return
    first = flags.number("decoder-first-pipeline-num-layers", least=0)
    last = flags.number("decoder-last-pipeline-num-layers", least=0)
    if first is None and last is None:
        return
    name = "decoder-first-pipeline-num-layers" if first is not None else "decoder-last-pipeline-num-layers"
    depth, line = flags.number("num-layers") or 0, flags.line(name)
    middle = pp - (first is not None) - (last is not None)
    rest = depth - (first or 0) - (last or 0)
    sizes = [first] if first is not None else []
    if middle < 1 or rest < 0 or rest % middle:
        launch.wrong(f"--{name}", f"leaves {rest} layers for {middle} stages, which must divide", line=line)
        return
    stages = [*sizes, *[rest // middle] * middle, *([last] if last is not None else [])]
    if any(size % vpp for size in stages):
        launch.wrong(f"--{name}", f"the {vpp} chunks a stage must divide each of {stages} layers", line=line)
        return
    launch.set("plan.stage_layers", [size // vpp for size in stages] * vpp, f"--{name}", line)


def layout_counts(layout: str) -> list[int] | None:
    """Transformer layers of each virtual stage of a layout such as `Et*3|(tt|)*29,m|L`."""
    text = layout.replace(",", "").replace(" ", "").strip("'\"")
    for pattern in (r"\(([^()]*)\)\*(\d{1,4})(?!\d)", r"([EtmL])\*(\d{1,4})(?!\d)"):
        length = sum(len(part) * int(times) for part, times in re.findall(pattern, text))
        if length > _MOST_OF_A_LAYOUT:
            return None
        text = re.sub(pattern, lambda m: m.group(1) * int(m.group(2)), text)
    return None if re.search(r"[^EtmL|]", text) else [stage.count("t") for stage in text.split("|")]
