"""A section `population:` looked up: files read, laws fitted."""

from __future__ import annotations

from dataclasses import replace

from windtunnel.errors import BadInput, Problem
from windtunnel.population.beta import Beta
from windtunnel.population.fit import DRAWS, Fit, fit_counts
from windtunnel.population.fit_tables import fit_all_of_k, fit_pass_1, fit_pass_at_k
from windtunnel.population.population import Population, stated_draws
from windtunnel.population.samples_file import read_samples
from windtunnel.specs.population import OnePopulation, PopulationSpec


def populations(spec: PopulationSpec, *, field: str = "population") -> dict[str, Population]:
    """Populations by the model's name; the name is empty where the section is of the scenario's own model.

    Raises:
        BadInput: files that cannot be read or hold too little, each in lines of its own.
    """
    found: dict[str, Population] = {}
    problems: list[Problem] = []
    for name, one in spec.by_model.items():
        where = f"{field}.models.{name}" if name else field
        try:
            found[name] = prepare(one, field=where, name=name)
        except BadInput as error:
            problems += error.problems
    if problems:
        raise BadInput(problems)
    return found


def prepare(spec: OnePopulation, *, field: str = "population", name: str = "") -> Population:
    """One population.

    Args:
        spec: what is stated of it.
        field: where it stands, for problems.
        name: of its model.

    Raises:
        BadInput: its file cannot be read, or holds too little.
    """
    temperature = None if isinstance(spec.temperature, dict) else spec.temperature
    if isinstance(spec.temperature, dict):
        temperature = next(iter(spec.temperature.values()), None)
    base = Population(
        fit=Fit(law=Beta(1.0, 1.0), draws=(), grade="assumed", why=""),
        temperature=temperature,
        max_tokens=spec.max_tokens,
        wrong_answers=spec.wrong_answers,
        lengths=spec.lengths,
        name=name,
    )
    if spec.samples is not None:
        read = read_samples(
            spec.samples, model=spec.model, task=spec.task, temperature=temperature, field=f"{field}.samples"
        )
        counted = fit_counts(read.correct, read.samples, field=f"{field}.samples")
        return replace(
            base,
            fit=counted,
            temperature=read.temperature if temperature is None else temperature,
            wrong_answers=spec.wrong_answers or read.wrong_answers,
            lengths=spec.lengths or read.lengths,
        )
    return replace(base, fit=_fit(spec, one_temperature=temperature is not None))


def _fit(spec: OnePopulation, *, one_temperature: bool) -> Fit:
    if spec.beta is not None:
        draws = stated_draws(spec, DRAWS)
        why = "stated a and b" + (" with their errors" if draws else "; no interval is stated")
        return Fit(law=Beta(spec.beta.a, spec.beta.b), draws=draws, grade="fitted" if draws else "assumed", why=why)
    if spec.pass_at_k is not None:
        return fit_pass_at_k(spec.pass_at_k, spec.problems, one_temperature=one_temperature)
    if spec.all_of_k is not None:
        return fit_all_of_k(spec.all_of_k, spec.problems)
    assert spec.pass_1 is not None
    return fit_pass_1(spec.pass_1, spec.concentration, spec.problems)
