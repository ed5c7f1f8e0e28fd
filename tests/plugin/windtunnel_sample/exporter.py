"""Launch lines of a training program that knows three options."""

from __future__ import annotations

from windtunnel.errors import ProblemList
from windtunnel.exporters.target import Draft, LaunchTarget, OptionList
from windtunnel.training.step_setup import PreparedStep


def _check(prepared: PreparedStep, problems: ProblemList) -> None:
    """The program knows no pipeline."""
    if prepared.plan.pp > 1:
        problems.add("plan.pp", prepared.plan.pp, "must be 1: the sample's program knows no pipeline")


def _write(prepared: PreparedStep, known: OptionList) -> Draft:
    """Options of the plan; those that the release lacks, or whose value it refuses, are reported."""
    draft = Draft()
    plan = prepared.plan
    words = []
    wanted = {"--tensor-parallel": plan.tp, "--micro-batch": plan.mbs, "--zero-stage": plan.zero, "--context": plan.cp}
    for option, value in wanted.items():
        refusal = known.refuses(option, value)
        if refusal is None:
            words.append(f"{option} {value}")
        else:
            draft.lacks(refusal)
    draft.program = " ".join(["sample_train.py", *words])
    return draft


TARGET = LaunchTarget(id="sample", title="Sample trainer", check=_check, write=_write)
