"""The tools, without the protocol: each a few lines over `api`."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from windtunnel import api
from windtunnel.batch import answered, settings_of
from windtunnel.catalogue_entries import catalogue_entries
from windtunnel.commands import COMMANDS
from windtunnel.errors import BadInput, Problem, ProblemList, nearest_name
from windtunnel.files import reading
from windtunnel.files.scope import Scope, confined, scratch_folder
from windtunnel.files.writing import place_to_write
from windtunnel.mcp.jobs import Jobs
from windtunnel.mcp.records import Answer, Job, Listing, Text
from windtunnel.mcp.summaries import failure, summary

Detail = Literal["small", "full"]
Scenario = dict[str, Any] | str
"""Fields of a scenario, its YAML text, or the path of a file below the root."""
MOST_FILE_BYTES = 1_000_000
T = TypeVar("T", bound=BaseModel)


@dataclass(slots=True)
class Tools:
    """What the tools do, without the protocol. Every method answers; none raises for bad input."""

    root: Path | None = None
    """Folder whose files may be read; None: none."""
    allow_write: bool = False
    allow_code: bool = False
    """Whether Python files below the root may run, where a scenario names them."""
    jobs: Jobs = field(default_factory=Jobs)

    # -- predictions

    def predict_training(
        self, scenario: Scenario, set: dict[str, Any] | None = None, detail: Detail = "small"
    ) -> Answer:
        """Predict one optimizer step: time, MFU, memory, power, cost. A plan left open is chosen by the planner."""
        return self._answer("train", scenario, set, detail)

    def predict_serving(
        self, scenario: Scenario, set: dict[str, Any] | None = None, detail: Detail = "small"
    ) -> Answer:
        """Simulate serving request by request: TTFT, TPOT, throughput, SLO attainment, cost."""
        return self._answer("serve", scenario, set, detail)

    def fit(self, scenario: Scenario, set: dict[str, Any] | None = None, detail: Detail = "small") -> Answer:
        """Whether a training plan fits into memory, and what would."""
        return self._answer("fit", scenario, set, detail)

    def run(self, scenario: Scenario, set: dict[str, Any] | None = None, detail: Detail = "small") -> Answer:
        """Predict a whole training run through failures: days, goodput, checkpoints, dollars, kWh, CO2."""
        return self._answer("run", scenario, set, detail)

    def cluster(self, scenario: Scenario, set: dict[str, Any] | None = None, detail: Detail = "small") -> Answer:
        """Simulate jobs that share a cluster under a scheduling policy."""
        return self._answer("cluster", scenario, set, detail)

    def learn(self, scenario: Scenario, set: dict[str, Any] | None = None, detail: Detail = "small") -> Answer:
        """Train algorithms on virtual workers while the clock of a large target runs."""
        return self._answer("learn", scenario, set, detail)

    def reason(self, scenario: Scenario, set: dict[str, Any] | None = None, detail: Detail = "small") -> Answer:
        """Compare strategies of inference: accuracy, dollars, joules and latency of programs of model calls."""
        return self._answer("reason", scenario, set, detail)

    def advise(self, scenario: Scenario, set: dict[str, Any] | None = None, detail: Detail = "small") -> Answer:
        """Which published techniques would help, by how much, and why."""
        return self._answer("advise", scenario, set, detail)

    def explain(self, scenario: Scenario, set: dict[str, Any] | None = None, detail: Detail = "small") -> Answer:
        """The chain from data sheet to second behind a training prediction."""
        return self._answer("explain", scenario, set, detail)

    def compare(self, a: Scenario, b: Scenario, detail: Detail = "small") -> Answer:
        """Where the difference between two training scenarios comes from."""
        return self._guarded(
            lambda: summary("compare", COMMANDS.get("compare").run(self._source(a), self._source(b)).to_dict(), detail),
            Answer,
            (a, b),
        )

    def scenario_validate(self, scenario: Scenario, set: dict[str, Any] | None = None) -> Answer:
        """Check a scenario; every problem at once, each with its path, value and what is allowed."""

        def ask() -> Answer:
            from windtunnel.catalog.load import check_names

            check_names(self._source(scenario), settings_of(set))
            return Answer(ok=True)

        return self._guarded(ask, Answer, (scenario, set))

    # -- catalogue

    def scenario_schema(self, section: str = "") -> Text:
        """JSON schema of a scenario, or of one of its sections (training, plan, serving, run, jobs, learning …)."""

        def ask() -> Text:
            schema = api.scenario_schema()
            if not section:
                sections = sorted(schema.get("properties", {}))
                return Text(text=json.dumps({"sections": sections, "required": schema.get("required", [])}))
            if section not in schema.get("properties", {}):
                names = ", ".join(sorted(schema.get("properties", {})))
                raise BadInput(Problem("section", f"must be one of {names}", section))
            return Text(text=json.dumps(_section(schema, section)))

        return self._guarded(ask, Text)

    def catalog_search(
        self, words: str, kind: Literal["models", "devices", "links", "clusters", "techniques"] = "models"
    ) -> Listing:
        """Entries of the catalogue whose id or summary has all the words."""

        def ask() -> Listing:
            asked = words.lower().split()
            rows = catalogue_entries(kind)
            found = [row for row in rows if all(word in " ".join(map(str, row.values())).lower() for word in asked)]
            return Listing(entries=found[:20], total=len(found))

        return self._guarded(ask, Listing)

    def cite(self, techniques: list[str]) -> Text:
        """BibTeX of the papers of techniques."""

        def ask() -> Text:
            from windtunnel.techniques import REGISTRY
            from windtunnel.techniques.described import bibtex

            for one in techniques:
                REGISTRY.get(one, field="techniques")
            return Text(text=bibtex(techniques, ()))

        return self._guarded(ask, Text)

    # -- files of other tools

    def import_config(self, text: str, name: str = "config.json", options: dict[str, Any] | None = None) -> Text:
        """A config.json, launch script or server command as a scenario in YAML; nothing is read from disk.

        Options are those of `windtunnel import` that name no file: device, nodes, seq_len, framework and the like.
        """

        def ask() -> Text:
            if len(text) > MOST_FILE_BYTES:
                raise BadInput(Problem("text", f"must be at most {MOST_FILE_BYTES:,} characters"))
            return _imported(text, name, _import_options(options or {}))

        return self._guarded(ask, Text)

    def export_launch(
        self, scenario: Scenario, target: str, set: dict[str, Any] | None = None, folder: str | None = None
    ) -> Text:
        """Launch files of a plan for megatron, torchtitan, vllm, sglang …; written only with --allow-write."""

        def ask() -> Text:
            from windtunnel.commands.launch_files import write_launch_files

            source, overrides = self._source(scenario), settings_of(set)
            if folder is not None:
                if not self.allow_write:
                    raise BadInput(Problem("folder", "files are not written: start with --allow-write", folder))
                place = place_to_write(self._path(folder), "folder")
                return _written(write_launch_files(source, target, place, overrides=overrides))
            with scratch_folder() as temporary:
                done = write_launch_files(source, target, temporary, overrides=overrides)
                return _written(done, texts=True)

        return self._guarded(ask, Text, (scenario, set))

    # -- long work

    def plan(self, scenario: Scenario, set: dict[str, Any] | None = None) -> Job:
        """Search the best plan in the background; ask job_status for it."""
        return self._start("plan", scenario, set, [])

    def sweep_start(self, scenario: Scenario, vary: dict[str, list[Any] | str], folder: str, draws: int = 0) -> Job:
        """Predict every combination of fields' values in the background; rows go to a folder below the root."""

        def ask() -> Job:
            from windtunnel.sweeps.start import listed

            if not self.allow_write:
                raise BadInput(Problem("folder", "files are not written: start with --allow-write", folder))
            place = place_to_write(self._path(folder), "folder")
            words = ["--out", str(place), "--draws", str(draws)]
            for name, values in vary.items():
                words += ["--vary", f"{name}={values if isinstance(values, str) else listed(values)}"]
            return self._start("sweep", scenario, None, words)

        return self._guarded(ask, Job)

    def sweep_query(
        self, folder: str, columns: list[str], where: dict[str, Any] | None = None, order_by: str = "", limit: int = 20
    ) -> Listing:
        """Rows of a sweep by filters (field → value, or [low, high]); no SQL."""

        def ask() -> Listing:
            place = reading.folder_in_scope(self._path(folder), "folder")
            sql = _filtered(columns, where or {}, order_by, max(1, min(limit, 200)))
            frame = api.query_sweep(place, sql)
            rows = json.loads(frame.to_json(orient="records"))
            return Listing(entries=rows, total=len(rows))

        return self._guarded(ask, Listing)

    def job_status(self, id: str) -> Job:
        """How far a job is, and its answer once it is done."""
        job = self.jobs.known.get(id)
        if job is None:
            return Job(ok=False, problems=failure(BadInput(Problem("id", "no such job", id)), id))
        state = job.state()
        answer = summary(job.verb, job.result(), "small") if state == "done" else None
        if state == "failed":
            return Job(ok=False, id=id, state=state, problems=failure(_of_job(job.result()), job.given))
        return Job(id=id, state=state, told=job.words(), answer=answer)

    def job_cancel(self, id: str) -> Job:
        """Stop a job; rows of a sweep stay."""
        if id in self.jobs.known:
            self.jobs.cancel(id)
        return self.job_status(id)

    # -- what they share

    def _source(self, scenario: Scenario) -> Any:
        """A scenario as `api` takes it, with files held below the root.

        Raises:
            BadInput: it names files that may not be read.
        """
        from windtunnel.scenarios.read import parse_mapping
        from windtunnel.scenarios.source import FieldsInFolder
        from windtunnel.scenarios.yaml_text import MAX_BYTES

        folder = self.root or Path("/nonexistent")
        data: dict[str, Any]
        if isinstance(scenario, dict):
            data = scenario
        elif "\n" in scenario or ":" in scenario:
            data = parse_mapping(scenario, "scenario")
        else:
            path = self._path(scenario)
            text, folder = reading.read_text(path, "scenario", most_bytes=MAX_BYTES), path.parent
            data = parse_mapping(text, scenario)
        return FieldsInFolder(data, folder)

    def _path(self, given: str) -> Path:
        """A path that a caller names, relative to the root."""
        return (self.root or Path("/nonexistent")) / given

    @property
    def scope(self) -> Scope:
        """What tools may read, write and run."""
        return Scope.of(self.root, may_write=self.allow_write, code="any" if self.allow_code else "never")

    def _answer(
        self,
        verb: str,
        scenario: Scenario,
        settings: dict[str, Any] | None,
        detail: Detail,
    ) -> Answer:
        return self._guarded(
            lambda: summary(verb, answered(verb, self._source(scenario), settings_of(settings)), detail),
            Answer,
            (scenario, settings),
        )

    def _guarded(self, work: Callable[[], T], kind: type[T], given: Any = ()) -> T:
        """What the work returns, or its kind of answer with what went wrong; of values, only those that were given."""
        try:
            with confined(self.scope):
                return work()
        except Exception as error:
            return kind.model_validate({"ok": False, "problems": failure(error, given)})

    def _start(self, verb: str, scenario: Scenario, settings: dict[str, Any] | None, words: Sequence[str]) -> Job:
        def work() -> Job:
            from windtunnel.scenarios.source import folder_of

            source = self._source(scenario)
            folder = folder_of(source)
            given = [word for one in settings_of(settings) for word in ("--set", one)]
            if any("\0" in word or any("\ud800" <= c <= "\udfff" for c in word) for word in (*given, *words)):
                raise BadInput(Problem("", "must not hold zero bytes or halves of surrogate pairs"))
            place = folder if folder.exists() else None
            name = self.jobs.start(verb, [*given, *words], dict(source), place, self.scope)
            return Job(id=name, state="running")

        return self._guarded(work, Job, (scenario, settings))


def _of_job(result: dict[str, Any]) -> BadInput:
    """What a command that failed has printed, as an error."""
    told = result.get("error")
    problems = told.get("problems") if isinstance(told, dict) else None
    if not problems:
        return BadInput(Problem("", "the command ended without an answer"))
    return BadInput([Problem(one["field"] or "", one["message"], one["value"]) for one in problems])


def _section(schema: dict[str, Any], section: str) -> dict[str, Any]:
    """A section's schema with the definitions that it needs."""
    own = schema["properties"][section]
    needed: dict[str, Any] = {}

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).rsplit("/", 1)[-1]
            if name and name not in needed and name in schema.get("$defs", {}):
                needed[name] = schema["$defs"][name]
                collect(needed[name])
            for inner in value.values():
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)

    collect(own)
    return {**own, "$defs": needed}


_IMPORT_OPTIONS = frozenset(
    "name format device nodes devices_per_node seq_len global_batch mbs vocab_size model framework env block time_unit "
    "block_size characters_per_token".split()
)
"""Options of `windtunnel import` that a caller may state: none writes, `model` alone reads, within the scope."""


def _import_options(options: dict[str, Any]) -> list[str]:
    """Options as words of a command line.

    Raises:
        BadInput: options that may not be stated, and values that are not plain, all of them.
    """
    problems, words = ProblemList(), []
    for option, value in options.items():
        values = value if isinstance(value, list) else [value]
        if option.replace("-", "_") not in _IMPORT_OPTIONS:
            rule = f"must be one of {', '.join(sorted(_IMPORT_OPTIONS))}"
            problems.add(f"options.{option}", value, rule, nearest=nearest_name(option, _IMPORT_OPTIONS))
        elif not all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in values):
            problems.add(f"options.{option}", value, "must be a text or a number, or a list of them")
        elif not all(str(one).isprintable() for one in values):
            problems.add(f"options.{option}", value, "must hold printable characters alone")
        else:
            words += [f"--{option.replace('_', '-')}={one}" for one in values]
    problems.raise_if_any()
    return words


def _imported(text: str, name: str, options: list[str]) -> Text:
    """What `windtunnel import` makes of a text, in a process that may read nothing but this text."""
    import subprocess
    import sys

    with tempfile.TemporaryDirectory() as folder:
        file = re.sub(r"[^\w.-]", "_", Path(name).name)[-100:].strip(".") or "config.json"
        (Path(folder) / file).write_text(text, encoding="utf-8", errors="replace")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "windtunnel", "import", *options, "--", file],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=folder,
            env=Scope.of(Path(folder)).environment(),
            check=False,
        )
    if done.returncode:
        lines = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
        raise BadInput([Problem("text", line) for line in lines] or [Problem("text", "cannot be read")])
    return Text(text=done.stdout, notes=[line for line in done.stderr.splitlines() if line][:10])


def _written(exported: Any, *, texts: bool = False) -> Text:
    files = {path.name: path.read_text(encoding="utf-8") if texts else str(path) for path in exported.files}
    notes = [*exported.misfits, *exported.unsupported, *exported.notes]
    return Text(files=files, notes=notes[:20])


def _filtered(columns: list[str], where: dict[str, Any], order_by: str, limit: int) -> str:
    """A query over `cells` from filters; names are quoted, values are literals."""

    def name(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    def literal(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return repr(value)
        return "'" + str(value).replace("'", "''") + "'"

    parts = []
    for column, value in where.items():
        if isinstance(value, list):
            if len(value) != 2:
                raise BadInput(Problem(f"where.{column}", "must be a value, or [low, high]", value))
            parts.append(f"{name(column)} BETWEEN {literal(value[0])} AND {literal(value[1])}")
        else:
            parts.append(f"{name(column)} = {literal(value)}")
    chosen = ", ".join(name(column) for column in columns) or "*"
    sql = f"SELECT {chosen} FROM cells"
    sql += f" WHERE {' AND '.join(parts)}" if parts else ""
    sql += f" ORDER BY {name(order_by)}" if order_by else ""
    return f"{sql} LIMIT {limit}"
