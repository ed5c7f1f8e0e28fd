"""`windtunnel calibrate --from …` and `--from-logs`: profiles of what others, or earlier runs, measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.cli.output import check_targets, console, note, print_json, progress

if TYPE_CHECKING:
    from windtunnel.calibration.profile import Calibration
    from windtunnel.specs.cluster import ClusterSpec

SOURCES = ("aiconfigurator", "nccl-tests", "kineto", "incidents", "samples", "results")
SCENARIOS = (".yaml", ".yml")


def results_named(
    source: str | None, files: Sequence[Path], scenario: Path | None
) -> tuple[str | None, tuple[Path, ...], Path | None]:
    """Source, files and scenario: `--from` may name the first result itself, and the last file may be the scenario."""
    given = tuple(files)
    if source is not None and source not in SOURCES and Path(source).is_file():
        source, given = "results", (Path(source), *given)
    if source == "results" and scenario is None and given and given[-1].suffix in SCENARIOS:
        given, scenario = given[:-1], given[-1]
    return source, given, scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the command was given, apart from what is measured here."""

    source: str | None
    files: tuple[Path, ...]
    logs: Path | None
    scenario: Path | None
    overrides: tuple[str, ...]
    system: str | None
    software: str | None
    device: str | None
    ranks: int
    nodes: int | None = None
    days: float | None = None
    model: str | None = None
    task: str | None = None
    temperature: float | None = None

    def check(self) -> None:
        """Refuse options that the source does not read.

        Raises:
            BadInput: all of them at once.
        """
        from windtunnel.errors import BadInput, Problem, nearest_name

        problems = []
        if self.source is not None and self.source not in SOURCES:
            near = nearest_name(self.source, SOURCES)
            problems.append(
                Problem(
                    "--from", f"must be one of {', '.join(SOURCES)}, or a file of results", self.source, nearest=near
                )
            )
        if self.source is not None and self.logs is not None:
            problems.append(Problem("--from-logs", "goes alone: a profile has one source; give its file to the next"))
        readers = {
            "--scenario": (self.scenario, ("logs", "kineto", "nccl-tests", "results")),
            "--set": (self.overrides, ("logs", "kineto", "nccl-tests", "results")),
            "--system": (self.system, ("aiconfigurator",)),
            "--software": (self.software, ("aiconfigurator",)),
            "--device": (self.device, ("nccl-tests",)),
            "--nodes": (self.nodes, ("incidents",)),
            "--days": (self.days, ("incidents",)),
            "--model": (self.model, ("samples",)),
            "--task": (self.task, ("samples",)),
            "--temperature": (self.temperature is not None, ("samples",)),
            "FILES": (self.files, SOURCES),
        }
        mine = "logs" if self.logs is not None else self.source
        for name, (value, read_by) in readers.items():
            if value and mine not in read_by and not problems:
                told = ", ".join("--from-logs" if r == "logs" else f"--from {r}" for r in read_by)
                problems.append(Problem(name, f"goes with {told}"))
        if self.source == "kineto" and (self.scenario is None or len(self.files) != 1):
            problems.append(Problem("--from kineto", "needs one trace, and --scenario for the step that it is of"))
        if self.source == "incidents" and len(self.files) != 1:
            problems.append(Problem("--from incidents", "needs one CSV of incidents"))
        if self.source == "samples" and len(self.files) != 1:
            problems.append(Problem("--from samples", "needs one file of attempts (CSV or JSON)"))
        if self.source == "results" and (self.scenario is None or not self.files):
            problems.append(
                Problem("--from results", "needs results, and the scenario of the server: one file of YAML")
            )
        if problems:
            raise BadInput(problems)


def imported(given: Given) -> Calibration:
    """A profile from tables, printed tests or a trace."""
    if given.source == "aiconfigurator":
        from windtunnel.calibration.aiconfigurator import calibrate_from_tables

        folder = given.files[0] if given.files else None
        return calibrate_from_tables(given.system or "", given.software, folder)
    if given.source == "kineto":
        from windtunnel.calibration.kineto import calibrate_from_kineto

        return calibrate_from_kineto(given.files[0], str(given.scenario), given.overrides)
    from windtunnel.calibration.nccl_tests import calibrate_from_nccl_tests

    ranks = given.ranks if given.ranks > 1 else None
    return calibrate_from_nccl_tests(
        given.files, ranks=ranks, device=given.device, cluster=_cluster(given.scenario, given.overrides)
    )


def _cluster(scenario: Path | None, overrides: Sequence[str]) -> ClusterSpec | None:
    if scenario is None:
        return None
    from windtunnel import catalog
    from windtunnel.catalog.load import load

    return catalog.resolve_cluster(load(scenario, overrides)[0].cluster)


def from_incidents(given: Given, out: Path, as_json: bool) -> None:
    """Fit a failure profile to an incident log, write and tell."""
    from windtunnel.calibration.incidents import read_incidents
    from windtunnel.calibration.incidents_fit import fit_incidents
    from windtunnel.calibration.incidents_text import incidents_dict, incidents_summary, write_profile

    check_targets(out, inputs=given.files)
    with progress("fitting"):
        found = fit_incidents(read_incidents(given.files[0]), nodes=given.nodes, days=given.days)
    write_profile(found, out)
    note(f"profile  {out}  (run.failures: {out.name})")
    if as_json:
        print_json(incidents_dict(found))
        return
    console().print(incidents_summary(found))


def from_samples(given: Given, out: Path, as_json: bool) -> None:
    """Fit a population to a file of attempts, write and tell."""
    from windtunnel.calibration.samples import fit_samples, samples_dict, samples_summary, write_population

    check_targets(out, inputs=given.files)
    with progress("fitting"):
        found = fit_samples(
            given.files[0], model=given.model or "", task=given.task or "", temperature=given.temperature
        )
    write_population(found, out)
    note(f"population  {out}  (population: {out.name})")
    if as_json:
        print_json(samples_dict(found))
        return
    console().print(samples_summary(found))


def from_results(given: Given, out: Path, as_json: bool) -> None:
    """Fit a server to results of benchmarks, write and tell."""
    from windtunnel.calibration.profile import write_device
    from windtunnel.calibration.server_fit import fit_server
    from windtunnel.calibration.server_results import read_loads
    from windtunnel.calibration.server_text import server_dict, server_summary

    check_targets(out, inputs=(*given.files, given.scenario))
    loads = read_loads(given.files, str(given.scenario), given.overrides)
    with progress("fitting") as told:
        found = fit_server(loads, ", ".join(file.name for file in given.files), told)
    write_device(found.device, out)
    note(f"profile  {out}  (cluster.device: {out.name})")
    if as_json:
        print_json(server_dict(found))
        return
    console().print(server_summary(found))


def from_logs(given: Given, out: Path, plot: Path | None, as_json: bool) -> None:
    """Fit to logs, write and tell."""
    from windtunnel.calibration.logs import read_logs
    from windtunnel.calibration.logs_fit import fit_logs
    from windtunnel.calibration.logs_text import log_dict, log_figure, log_summary
    from windtunnel.calibration.profile import write_device

    assert given.logs is not None
    check_targets(out, plot, inputs=(given.logs, given.scenario))
    named = None if given.scenario is None else str(given.scenario)
    rows = read_logs(given.logs, scenario=named, overrides=given.overrides)
    with progress("fitting") as told:
        found = fit_logs(rows, given.logs.name, told)
    write_device(found.device, out, found.cluster)
    note(f"profile  {out}  (cluster.device: {out.name})")
    if plot is not None:
        log_figure(found).save(plot.with_suffix(".html") if not plot.suffix else plot)
        note(f"plot     {plot}")
    if as_json:
        print_json(log_dict(found))
        return
    console().print(log_summary(found))
