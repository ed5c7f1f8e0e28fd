"""What an iteration's time is made of, at the mean batch of a run, and what that says about its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel.serving.results.run_record import Record

DECODE, PREFILL = "decode iteration", "iteration with prompts"
_A = {DECODE: "an iteration", PREFILL: "an iteration with prompts"}
_ATTENTION = ("attention of prompts", "cached keys and values")
_UNDER_WAY = "an iteration is under way"
_BOUND = {
    "weights": "reading weights",
    "expert weights": "reading expert weights",
    "matrix products": "matrix throughput",
    "expert products": "matrix throughput of experts",
    "cached keys and values": "reading the cache",
    "attention of prompts": "attention over prompts",
    "all-reduce": "all-reduces between devices",
    "expert exchange": "sending tokens to experts and back",
    "pipeline hops": "hops between pipeline stages",
    "host": "the host (scheduling, sampling)",
    "sequences": "the host's work for each sequence",
    "kernel gaps": "gaps between kernels",
    "head": "the head",
    "launches": "kernel launches without captured graphs",
    "element-wise": "element-wise work",
    "scan": "scans",
    "drafting": "drafting tokens",
}
"""Class of time → what would have to be faster."""


def iteration_parts(
    model: IterationModel,
    *,
    tokens: float,
    pairs: float = 0.0,
    prompt_tokens: float = 0.0,
    kv: float = 0.0,
    window_kv: float = 0.0,
    sequences: float = 1.0,
    decoding: float = 0.0,
) -> dict[str, float]:
    """Seconds by class of one iteration; they sum to `model.seconds(...)`.

    Where techniques run launches side by side, classes of the layers keep their shares of the time in a row.

    Args:
        model: of the instance.
        tokens: computed in it.
        pairs: query-key pairs of its prompts.
        prompt_tokens: of its prompts.
        kv: cached tokens of its decoding sequences.
        window_kv: those inside the window.
        sequences: of the batch.
        decoding: of them, those that decode (read where tokens are drafted).
    """
    linear, c = model.linear, model.coefficients
    tokens = model.computed(tokens, prompt_tokens)
    out = {name: float(np.interp(tokens, linear.tokens, seconds)) for name, seconds in linear.parts.items()}
    rows = min(linear.head_row_s, model.per_sequence_s)
    gaps = max(model.base_s - c.host_s - linear.head_s, 0.0)
    out |= {
        "attention of prompts": pairs * model.prefill_pair_s + prompt_tokens * model.prefill_token_s,
        "cached keys and values": kv * model.decode_kv_s + window_kv * model.window_kv_s,
        "head": linear.head_s + sequences * rows,
        "sequences": sequences * (model.per_sequence_s - rows),
        "kernel gaps": gaps,
        "host": c.host_s,
    }
    if (drafts := model.drafts) is not None:
        out["cached keys and values"] -= kv * drafts.kv_s
        out["head"] += decoding * drafts.sequence_s
        out["drafting"] = float(drafts.step_s(decoding) + drafts.prompt_s(prompt_tokens))
        out["drafting"] += kv * drafts.kv_s - decoding * drafts.sequence_s
    if model.overlap is not None:
        read = kv * model.decode_kv_s + window_kv * model.window_kv_s
        saved = model.overlap.saved(tokens, out["attention of prompts"], read)
        woven = {name for name in out if name in linear.parts} | {*_ATTENTION, "kernel gaps"}
        keep = 1.0 - saved / max(sum(out[name] for name in woven), 1e-300)
        out |= {name: out[name] * keep for name in woven}
    if prompt_tokens and tokens > model.captured:  # the device waits for the host's launches
        out["launches"] = max(model.prefill_floor_s - sum(out.values()), 0.0)
    return {name: value for name, value in sorted(out.items(), key=lambda item: -item[1]) if value > 0.0}


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean batch of a run, from its sums (`records.TOTAL`) over instances."""

    prompt_iterations: float
    decoding: float
    """Sequences of an iteration that decodes."""
    kv: float
    """Their cached tokens."""
    prompt_tokens: float
    """Prompt tokens of an iteration that has any."""
    pairs: float
    prompts: float
    """Prompts of such an iteration."""


def mean_batch(totals: Any, prompts: int, *, mixed: bool) -> Mean:
    """Means over all instances.

    Args:
        totals: (N,) of `records.TOTAL`.
        prompts: that were computed, those of preempted requests again.
        mixed: whether sequences decode in iterations that hold prompts.
    """
    iterations, with_prompts = float(totals["iterations"].sum()), float(totals["prompt_iterations"].sum())
    decode_tokens = float(totals["decode_tokens"].sum())
    each, steps = max(with_prompts, 1.0), max(iterations if mixed else iterations - with_prompts, 1.0)
    return Mean(
        with_prompts,
        decode_tokens / steps,
        float(totals["kv_tokens"].sum()) / steps,
        float(totals["prompt_tokens"].sum()) / each,
        float(totals["prompt_pairs"].sum()) / each,
        prompts / each,
    )


def composition(model: IterationModel, mean: Mean, *, mixed: bool) -> dict[str, dict[str, float]]:
    """Kind of iteration → class → seconds, at the mean batch.

    Args:
        model: of the instance.
        mean: batch.
        mixed: whether sequences decode in iterations that hold prompts.
    """
    window = mean.decoding * min(mean.kv / mean.decoding, model.window) if mean.decoding and model.window else 0.0
    out = {}
    if mean.decoding:
        out[DECODE] = iteration_parts(
            model,
            tokens=mean.decoding * model.step_tokens,
            kv=mean.kv,
            window_kv=window,
            sequences=mean.decoding,
            decoding=mean.decoding,
        )
    if mean.prompt_iterations:
        beside = mean.decoding if mixed else 0.0
        out[PREFILL] = iteration_parts(
            model,
            tokens=mean.prompt_tokens + beside * model.step_tokens,
            pairs=mean.pairs,
            prompt_tokens=mean.prompt_tokens,
            kv=mean.kv if mixed else 0.0,
            window_kv=window if mixed else 0.0,
            sequences=mean.prompts + beside,
            decoding=beside,
        )
    return out


def waits_for(record: Record, limits: Limits) -> tuple[str, float]:
    """Why requests wait, in words, and the share of waiting time (requests · seconds) that this reason has.

    Requests that an iteration found queued and did not admit wait for the limit that its batch had reached: sequences;
    the cache, where the free blocks are fewer than the prompt needs that is admitted next; else the token budget, or,
    where no prompt runs, what the policy keeps free for answers to come. Those that came since wait for the iteration
    under way, or for the engine's next look at the queue.
    """
    events = record.events
    area = events["waiting"] * events["seconds"]
    whole = float(area.sum())
    if whole <= 0.0:
        return "", 0.0
    left, need = _queued(record, limits)
    left = np.minimum(left, events["waiting"]) * events["seconds"]
    full = events["decoding"] + events["prompts"] >= limits.max_seqs
    cache = ~full & (events["used"] + need + limits.watermark > limits.blocks)
    rest = ~full & ~cache
    looks = f"the engine looks at the queue every {limits.poll:,} steps" if limits.poll > 1 else _UNDER_WAY
    refused = looks
    if limits.static:
        refused = "the batch before has to end"
    elif limits.ratio_start or limits.reserve_length:
        refused = "the cache is kept for answers to come"
    alone = events["prompts"] == 0  # a run of decode steps, which an engine that always looks would have ended
    shares: dict[str, float] = {}
    for words, seconds in (
        (f"{limits.max_seqs:,} sequences run (max_num_seqs)", left[full]),
        ("the cache is full", left[cache]),
        (f"an iteration holds {limits.budget:,} tokens (max_num_batched_tokens)", left[rest & ~alone]),
        (refused, left[rest & alone]),
        (looks, (area - left)[alone]),
        (_UNDER_WAY, (area - left)[~alone]),
    ):
        shares[words] = shares.get(words, 0.0) + float(seconds.sum())
    reason, most = max(shares.items(), key=lambda item: item[1])
    return reason, most / whole


def _queued(record: Record, limits: Limits) -> tuple[Floats, Floats]:
    """Return requests that each event left in the queue as it began, and the blocks that the next of them needs."""
    q, events = record.requests, record.events
    left, need = np.zeros(len(events)), np.zeros(len(events))
    ran = np.flatnonzero(np.isfinite(q.scheduled_s))
    ran = ran[np.lexsort((q.scheduled_s[ran], q.instance[ran]))]
    ends = np.searchsorted(q.instance[ran], np.arange(record.lanes + 1))
    asked = np.flatnonzero(events["waiting"] > 0)
    asked = asked[np.argsort(events["instance"][asked], kind="stable")]
    of_lane = np.searchsorted(events["instance"][asked], np.arange(record.lanes + 1))
    for lane in range(record.lanes):
        own, mine = ran[ends[lane] : ends[lane + 1]], asked[of_lane[lane] : of_lane[lane + 1]]
        if not len(own) or not len(mine):
            continue
        start = events["start"][mine]
        admitted = np.searchsorted(q.scheduled_s[own], start, side="right")
        came = np.searchsorted(np.sort(q.arrival_s[own]), start, side="right")
        first = own[np.minimum(admitted, len(own) - 1)]
        tokens = q.input_tokens[first] - q.cached_tokens[first] + (q.output_tokens[first] if limits.reserve else 0)
        left[mine], need[mine] = came - admitted, -(-tokens // limits.block)
    return left, need


def bound_by(parts: dict[str, dict[str, float]], mean: Mean, busy_s: float, record: Record, limits: Limits) -> str:
    """What keeps a run from being faster, in words: the largest class of each kind of iteration, and why requests wait.

    Args:
        parts: of `composition`.
        mean: batch.
        busy_s: seconds that instances computed, summed.
        record: of the run.
        limits: of one instance of the loop.
    """
    prompts_s = sum(parts.get(PREFILL, {}).values()) * mean.prompt_iterations
    share = min(prompts_s / busy_s, 1.0) if busy_s > 0 else 0.0
    words = []
    for name, kind, own in (("decode", DECODE, 1.0 - share), ("prompts", PREFILL, share)):
        times = parts.get(kind)
        if times and own > 0.15:
            first, seconds = next(iter(times.items()))
            part = 100 * seconds / sum(times.values())
            words.append((own, f"{name} by {_BOUND.get(first, first)} ({part:.0f} % of {_A[kind]})"))
    out = "; ".join(text for _, text in sorted(words, reverse=True))
    reason, portion = waits_for(record, limits)
    q = record.requests
    wait = float(np.nanmean(q.scheduled_s - q.arrival_s)) if np.isfinite(q.scheduled_s).any() else 0.0
    first_s = float(np.nanmean(q.first_token_s - q.arrival_s)) if np.isfinite(q.first_token_s).any() else 0.0
    if reason and wait > 0.1 * first_s:
        out += f"; requests wait because {reason} ({100 * portion:.0f} % of the waiting)"
    return out
