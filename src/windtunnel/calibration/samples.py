"""A user's own attempts to the section `population:`: law with its errors, wrong answers, lengths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.calibration.text import table
from windtunnel.errors import comment
from windtunnel.files.writing import write_text
from windtunnel.population.accuracy import LEVEL, Accuracy
from windtunnel.population.fit import fit_counts
from windtunnel.population.majority import majority
from windtunnel.population.pass_at_k import all_right, at_least_one
from windtunnel.population.population import Population
from windtunnel.population.samples_file import Samples, read_samples
from windtunnel.specs.population import BetaSpec, PopulationSpec

if TYPE_CHECKING:
    from rich.console import RenderableType

_SHOWN_K = (1, 10, 100, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesFit:
    """A population fitted to a file of attempts."""

    file: str
    read: Samples
    population: Population
    section: PopulationSpec
    """What stands in a scenario."""
    figures: dict[str, Accuracy]
    """Pass@k, pass^4 and, where answers were given, majority votes."""
    notes: tuple[str, ...]


def fit_samples(path: str | Path, *, model: str = "", task: str = "", temperature: float | None = None) -> SamplesFit:
    """Fit a population to a file of attempts.

    Args:
        path: CSV or JSON (`population.samples_file`).
        model: only its rows.
        task: only its rows.
        temperature: only attempts drawn at it.

    Raises:
        BadInput: the file cannot be read or mixes populations, a line each, or holds too few attempts for a law.
    """
    read = read_samples(path, model=model, task=task, temperature=temperature, field="--from samples")
    fit = fit_counts(read.correct, read.samples, field=Path(path).name)
    population = Population(
        fit=fit, temperature=read.temperature, wrong_answers=read.wrong_answers, lengths=read.lengths
    )
    figures = {f"pass@{k}": population.accuracy(partial(at_least_one, k=k)) for k in _SHOWN_K}
    figures["pass^4"] = population.accuracy(partial(all_right, k=4))
    if read.wrong_answers:
        vote = partial(majority, n=16, wrong_answers=read.wrong_answers)
        figures["majority of 16"] = population.accuracy(vote)
    notes = list(fit.notes)
    if not read.wrong_answers:
        notes.append("no histogram of wrong answers (column `answer`): votes are assumed, with a wide interval")
    if read.lengths is None:
        notes.append("no lengths of right and wrong answers (column `tokens`): budgets of tokens need them")
    if read.without_tokens:
        notes.append(f"{read.without_tokens:,} attempts do not state their tokens: lengths are of the others")
    return SamplesFit(
        file=Path(path).name,
        read=read,
        population=population,
        section=_section(population),
        figures=figures,
        notes=tuple(notes),
    )


def _section(population: Population) -> PopulationSpec:
    """The section: errors of ln a and ln b are half the middle 68 % of the laws that the attempts allow."""
    law, draws = population.law, population.fit.draws
    logs = np.log(np.array([[x.a, x.b] for x in draws], np.float64))
    spread = [min(10.0, float(np.quantile(x, 0.84) - np.quantile(x, 0.16)) / 2) for x in logs.T]
    ranks = logs.argsort(axis=0).argsort(axis=0)
    correlation = float(np.asarray(np.corrcoef(ranks.T))[0, 1]) if min(spread) > 0 else 0.0
    beta = BetaSpec(
        a=float(f"{law.a:.5g}"),
        b=float(f"{law.b:.5g}"),
        log_sd_a=float(f"{spread[0]:.3g}"),
        log_sd_b=float(f"{spread[1]:.3g}"),
        log_correlation=round(correlation, 3),
    )
    return PopulationSpec(
        beta=beta,
        temperature=population.temperature,
        wrong_answers=population.wrong_answers,
        lengths=population.lengths,
    )


def write_population(found: SamplesFit, out: Path) -> None:
    """Write the section as YAML, for `population: FILE`."""
    import yaml

    lines = [comment(f"Fitted by windtunnel calibrate --from samples to {found.file}: {found.population.fit.why}.")]
    lines += [comment(f"{name} {_said(figure)}") for name, figure in found.figures.items()]
    lines += map(comment, found.notes)
    for name, value in found.section.model_dump(mode="json", exclude_defaults=True).items():
        flat = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10_000)
        text = flat.removesuffix("\n...\n").strip()
        lines.append(f"{name}: {text}")
    write_text(out, "\n".join(lines) + "\n", "--out")


def samples_dict(found: SamplesFit) -> dict[str, Any]:
    """Plain data for `--json`."""
    return {
        "file": found.file,
        "model": found.read.model,
        "task": found.read.task,
        "problems": len(found.read.samples),
        "attempts": found.read.attempts,
        "temperature": found.read.temperature,
        "figures": {name: figure.to_dict() for name, figure in found.figures.items()},
        "notes": list(found.notes),
        "population": found.section.model_dump(mode="json", exclude_defaults=True),
    }


def samples_summary(found: SamplesFit) -> RenderableType:
    """The law and what it says of more attempts."""
    from rich.console import Group
    from rich.text import Text

    rows = table("figure", "share of problems", f"{100 * LEVEL:g} % interval")
    for name, figure in found.figures.items():
        rows.add_row(name, f"{figure.mean:.4f}", f"{figure.low:.4f} to {figure.high:.4f}")
    law = found.population.law
    head = f"{found.population.fit.why}: a = {law.a:.4g}, b = {law.b:.4g}, confidence {found.population.fit.grade}"
    return Group(Text(head, style="bold"), rows, *(Text(f"! {note}", style="yellow") for note in found.notes))


def _said(figure: Accuracy) -> str:
    return f"{figure.mean:.4f} ({100 * figure.level:g} %: {figure.low:.4f} to {figure.high:.4f})"
