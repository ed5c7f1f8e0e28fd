"""What a row recomputes and offloads: a phrase, a list of modules, or a mapping."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.specs.plan import Offload, Recompute
from windtunnel.validation.rows.parsing.context import Context
from windtunnel.validation.rows.parsing.loose_values import count, mapping, number, switch, unstated, words
from windtunnel.validation.rows.parsing.pattern_tables import default, matches, meaning, table


def read_recompute(ctx: Context) -> tuple[Recompute | None, float]:
    """The policy, how its checkpoints end, and the share of saved activations that the same field sends to the host.

    No policy: the row leaves it to the framework.
    """
    policy, sent = _policy(ctx)
    if (
        policy is not None
        and policy.policy == "full"
        and (rule := default("early_stop", ctx, precision=words(ctx.fields.get("precision"))))
    ):
        ctx.assume("plan.recompute.early_stop", *rule)
        policy = policy.model_copy(update={"early_stop": bool(rule[0])})
    return policy, sent


def _policy(ctx: Context) -> tuple[Recompute | None, float]:
    override = default("recompute_override", ctx)
    if override is not None:
        value, why = override
        ctx.assume("plan.recompute", value, why)
        return _phrase(str(value)) or Recompute(), 0.0
    raw = ctx.fields.get("recompute")
    if isinstance(raw, (bool, int, float)):
        return (Recompute(policy="full") if raw else Recompute()), 0.0
    if isinstance(raw, dict):
        found = _mapping(ctx, mapping(raw))
        if found is not None:
            return found
    elif isinstance(raw, (list, tuple)):
        modules = _modules(raw)
        return (Recompute(policy="modules", modules=modules) if modules else Recompute()), 0.0
    elif not unstated(raw) or re.match(r"^none\b", words(raw)):
        policy = _phrase(words(raw))
        if policy is not None:
            return policy, _offloaded(words(raw))
    why = "recomputation not stated"
    if not unstated(raw):
        why = f"{words(raw)[:60]!r} not understood"
    if rule := default("recompute", ctx):
        ctx.assume("plan.recompute", rule[0], f"{why}; {rule[1]}", leaves_open="recompute")
        return _phrase(str(rule[0])), 0.0
    ctx.assume("plan.recompute", "as the framework", why, leaves_open="recompute")
    return None, 0.0


def _offloaded(text: str) -> float:
    """Share of what is kept that goes to the host: all, unless the phrase names tensors."""
    rules = table("recompute")
    sent = [clause for clause in _clauses(text) if "offload" in clause and not matches(rules["negated"], clause)]
    if not sent:
        return 0.0
    tensors = re.compile(rules["offloaded_tensors"])
    named = {found.group() for clause in sent for found in tensors.finditer(clause)}
    if not named:
        return 1.0
    kept = {found.group() for found in tensors.finditer(text)}
    if kept == named and not matches(r"\bfull", text):
        return len(named) / max(len(rules["custom_all"]), len(named))
    return len(named) / len(kept)


def _clauses(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"[,;:()|+]|\bbut\b|\bexcept for\b", text) if part.strip()]


def _positive(text: str) -> str:
    """A phrase without the clauses that take something back; "none" where they take recomputation back altogether.

    The order of the words does not matter: `recomputation: none`, `no recomputation` and `none (recomputation)` agree.
    """
    rules = table("recompute")
    if re.fullmatch(r"0|false|off", text):
        return "none"
    clauses = _clauses(text)
    kept = [clause for clause in clauses if not matches(rules["negated"], clause)]
    if len(kept) == len(clauses):
        return text
    states = [clause for clause in kept if "offload" not in clause and meaning("recompute", "text", clause)]
    subject = [clause for clause in states if not re.fullmatch(r"[a-z ]*(recomp|checkpoint|remat)[a-z_ ]*", clause)]
    taken_back = [clause for clause in clauses if clause not in kept and "offload" not in clause]
    about = [clause for clause in taken_back if not matches(r"full|selectiv", clause)]
    relevant = [
        c for c in about if matches(rules["about"], c) or matches(r"^(none|no|off|false|disabled|null|not used)$", c)
    ]
    if relevant and not subject:
        return "none"
    return "; ".join(kept) if states else ("none" if taken_back else text)


def _phrase(text: str) -> Recompute | None:
    text = _positive(text)
    value = "none" if text == "none" else meaning("recompute", "text", text)
    layers = re.search(r"(\d+)\s*(?:transformer\s*)?(?:layers?|blocks?)\b", text)
    depth = int(layers.group(1)) if layers else None
    if value is None:
        modules = _modules(re.split(r"[,;+&/]|\band\b", text))
        return Recompute(policy="modules", modules=modules) if modules else None
    if value == "none":
        return Recompute()
    if value == "full":
        return Recompute(policy="full", num_layers=depth)
    if value == "selective":
        bare = re.sub(r"selective(ly)?|activations?[ _-](recomput|checkpoint)\w*|recomput\w*|checkpoint\w*", " ", text)
        named = _modules(re.split(r"[,;:+&/()]|\band\b", bare))
        if named and named != ("core_attn",):
            return Recompute(policy="modules", modules=named)
        return Recompute(policy="selective", num_layers=depth)
    return Recompute(policy="modules", modules=tuple(value))


def _modules(names: Any) -> tuple[str, ...]:
    found = [meaning("recompute", "modules", words(name).strip()) for name in names]
    return tuple(dict.fromkeys(str(m) for m in found if m))


def _mapping(ctx: Context, raw: dict[str, Any]) -> tuple[Recompute, float] | None:
    if raw.get("source") is not None:
        why = f"from another release: {words(raw['source'])}"
        ctx.assume("plan.recompute", words(raw.get("modules"))[:60], why, leaves_open="recompute")
    depth = count(next((v for k, v in raw.items() if "num_layers" in k or k == "layers"), None))
    listed = next((v for k, v in raw.items() if "modules" in k and v), None)
    if listed:
        names = listed if isinstance(listed, (list, tuple)) else re.split(r"[,;+ ]+", words(listed))
        modules = _modules(names)
        if modules:
            return Recompute(policy="modules", modules=modules, num_layers=depth), 0.0
    tensors = mapping(raw.get("tensors"))
    if tensors:
        return _tensors(tensors)
    for key in ("policy", "granularity", "mode", "type", "method", "activation_checkpoint", "recompute_granularity"):
        if raw.get(key) is not None:
            text = words(raw[key])
            policy = _phrase(text)
            if policy is not None:
                return policy.model_copy(update={"num_layers": depth} if depth else {}), _offloaded(text)
    if depth:
        return Recompute(policy="full", num_layers=depth), 0.0
    flag = switch(next((v for k, v in raw.items() if k in ("enabled", "recompute")), None))
    if flag is not None:
        return (Recompute(policy="full") if flag else Recompute()), 0.0
    return (Recompute(), 0.0) if raw and all(v in (None, [], {}, False, 0) for v in raw.values()) else None


def _tensors(tensors: dict[str, Any]) -> tuple[Recompute, float]:
    """Named tensors that are kept on the device or sent to the host; everything else is recomputed."""
    recomputed = list(table("recompute")["custom_all"])
    offloaded = kept = 0
    for name, fate in tensors.items():
        if "remat" in words(fate):
            continue
        kept += 1
        offloaded += "offload" in words(fate)
        module = meaning("recompute", "tensors", words(name))
        if module in recomputed:
            recomputed.remove(module)
    return Recompute(policy="modules", modules=tuple(recomputed)), offloaded / kept if kept else 0.0


def read_offload(ctx: Context, from_recompute: float, layers: int) -> Offload | None:
    """Host memory use, from `offload`, the recompute phrase and the recipe's layer count; None: nothing is stated."""
    raw = ctx.fields.get("offload")
    if isinstance(raw, dict):
        raw = [f"{key} {value}" for key, value in raw.items() if value and switch(value) is not False]
    text = words(raw)
    fields: dict[str, float] = {}
    if from_recompute:
        fields["activations"] = from_recompute
    if text and not matches(r"^(none|no\b|off|false|0$)", text) and not unstated(text):
        depth = re.search(r"(\d+)\s*layers?", text)
        share = min(1.0, int(depth.group(1)) / layers) if depth and layers else 1.0
        percent = re.search(r"(\d+(?:\.\d+)?)\s*%", text)
        share = min(1.0, float(percent.group(1)) / 100) if percent else share
        named = False
        for pattern, field in (
            (r"activ", "activations"),
            (r"optim|adam|master|state", "optimizer"),
            (r"weight|param", "params"),
        ):
            if re.search(pattern, text):
                fields[field], named = share, True
        if not named:
            fields["optimizer"] = 1.0
            ctx.assume("plan.offload", "optimizer", f"{text[:60]!r} does not say what is offloaded")
    depth_key = number(next((v for k, v in ctx.extra.items() if "offloading_num_layers" in k), None))
    if depth_key and layers:
        fields.setdefault("activations", min(1.0, depth_key / layers))
    if not fields and (not text or unstated(text)):
        return None
    tier = "nvme" if "nvme" in text else "host"
    return Offload.model_validate({**fields, "tier": tier})
