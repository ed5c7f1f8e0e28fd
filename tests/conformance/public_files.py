"""Public files with the reading that a person expects of them, compared with what `windtunnel import` makes of them.

`public_files.yaml` names each file by repository, commit and path, with its SHA-256 and ten fields that were written
down from the file alone, before any import ran. No file of others is here: a folder of snapshots holds the repositories
(clones as `OWNER/NAME` or `OWNER+NAME`). `corpus_run.py` runs all of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from windtunnel import catalog
from windtunnel.catalog.checkpoints import released_format
from windtunnel.catalog.model_names import checkpoint
from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.scenarios.load import fields_of

FIELDS = ("format", "model", "task", "devices", "tp", "pp", "split", "precision", "length", "batch")
ABSENT = "absent"
"""The file does not say: the import may assume or ask, and may not name a line of the file for it."""
DEVICE = "h100-sxm-80gb"
"""Given where an import asks for the device and the file names none."""
LIMIT_S = 60
"""An import that takes longer is stopped and counts as refused."""
TEXTS = re.compile(r"\.(sh|slurm|sbatch|sub|ya?ml|toml|json|env|conf|txt|md|py|args|bash)$|(^|/)[^./]+$")
MOST_BYTES = 4 << 20
_OPTION = re.compile(
    r"--(device|nodes|devices-per-node|model|seq-len|global-batch|mbs|vocab-size|framework|format|env)(?![\w-])"
)
PREFERENCES = {"dpo": (True, True), "kto": (False, True), "orpo": (True, False), "simpo": (True, False)}
"""Task → whether a row of its data holds two sequences, and whether a reference model runs beside the policy."""
NOTHING = "none"
"""Format of a file that starts no training and no server that is known: right is any message and exit code 2."""
OTHER_NAMES = {
    "transformers": ("trl", "accelerate", "hftrainer"),
    "ms_swift": ("swift", "megatronswift"),
    "lmflow": ("hftrainer",),
    "easyr1": ("verl",),
    "truss": ("trtllm",),
    "nemo_automodel": ("automodel",),
    "kserve": ("vllm",),
    "ray_serve": ("vllm",),
    "srt_slurm": ("sglang", "trtllm", "vllm"),
    "flagscale": ("megatron", "vllm"),
    "primus": ("megatron", "maxtext", "torchtitan"),
}
"""Format → other names for its files: the trainer or engine whose settings they hold."""
SIZES = re.compile(r"\d+x\d+")
"""Layers and hidden size, for a model that the file spells out."""
_WITHOUT = re.compile(r"--without (?!rest\b|rollouts\b)([\w.-]+) goes on without it")
"""A setting that an import goes on without when it is told so; never most of a file."""
_PLACES = {
    "tp": "plan.tp",
    "pp": "plan.pp",
    "precision": "precision",
    "length": ("seq_len", "max_model_len"),
    "batch": ("global_batch", "mbs", "max_num_seqs"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A public file and what it says."""

    repository: str
    commit: str
    path: str
    sha256: str
    draw: str
    expected: dict[str, Any]
    """The ten fields."""
    refused: tuple[str, ...] = ()
    """Words that the message must hold one of, for a file that is no scenario yet."""
    given: dict[str, Any] = field(default_factory=dict)
    """Values of options that an import may ask for and the ten fields do not hold."""
    shape_of: str = ""
    """Another model of the same dimensions, which an import may name instead."""

    @property
    def kind(self) -> str:
        """The format that the page counts the file under."""
        return str(self.expected["format"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an entry: `right`, `given`, `wrong`, `refused`, `failed` or `missing`."""

    entry: Entry
    result: str
    why: str = ""
    options: tuple[str, ...] = ()
    cpu_s: float = 0.0
    """Of the slowest of its imports."""
    resolved: bool | None = None
    """Whether the catalogue knows the model that the file names; None: it names none."""


def entries(path: Path) -> list[Entry]:
    """The entries of a list of public files."""
    data = yaml.load(path.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    commits = data["repositories"]
    return [
        Entry(
            repository=item["from"],
            commit=commits[item["from"]],
            path=item["path"],
            sha256=item["sha256"],
            draw=item["draw"],
            expected={name: item[name] for name in FIELDS},
            refused=tuple(item.get("refused", ())),
            given=item.get("given", {}),
            shape_of=item.get("shape_of", ""),
        )
        for item in data["files"]
    ]


class Snapshots:
    """Texts of repositories, taken from clones in a folder and laid out in another."""

    def __init__(self, clones: Path, out: Path) -> None:
        self.clones, self.out = clones, out
        self._laid: dict[tuple[str, str], Path | None] = {}

    def file(self, entry: Entry) -> Path | None:
        """The file of an entry among its neighbours, or None where it cannot be had as it was."""
        key = (entry.repository, entry.commit)
        if key not in self._laid:
            self._laid[key] = self._lay(*key)
        root = self._laid[key]
        if root is None or not (root / entry.path).is_file():
            return None
        digest = hashlib.sha256((root / entry.path).read_bytes()).hexdigest()
        return root / entry.path if digest == entry.sha256 else None

    def git_folder(self, repository: str) -> Path | None:
        """Where the git data of a repository is."""
        for name in (repository.replace("/", "+"), repository):
            for inner in ("repo/.git", "repo", ".git", ""):
                folder = self.clones / name / inner
                if (folder / "HEAD").is_file():
                    return folder
        return None

    def _lay(self, repository: str, commit: str) -> Path | None:
        folder = self.git_folder(repository)
        if folder is None:
            return None
        git = ["git", f"--git-dir={folder}"]
        listed = subprocess.run([*git, "ls-tree", "-r", "-l", "-z", commit], capture_output=True, check=False)
        if listed.returncode:
            return None
        wanted = []
        for line in listed.stdout.decode("utf-8", "replace").split("\0")[:-1]:
            about, path = line.split("\t", 1)
            mode, _, blob, size = about.split()
            if mode in ("100644", "100755") and size.isdigit() and int(size) <= MOST_BYTES and TEXTS.search(path):
                wanted.append((blob, path))
        asked = "".join(f"{blob}\n" for blob, _ in wanted).encode()
        texts = subprocess.run([*git, "cat-file", "--batch"], input=asked, capture_output=True, check=True).stdout
        root, at = self.out / repository.replace("/", "+"), 0
        for _, path in wanted:
            end = texts.index(b"\n", at)
            size = int(texts[at:end].split()[2])
            target = root / path
            if target.resolve().is_relative_to(root.resolve()):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(texts[end + 1 : end + 1 + size])
            at = end + 1 + size + 1
        return root


def outcome(entry: Entry, file: Path | None) -> Outcome:
    """Import a file, give what the message names, and compare the ten fields."""
    if file is None:
        return Outcome(entry, "missing")
    options: dict[str, list[str]] = {}
    slowest, known = 0.0, _resolved(entry.expected["model"])
    while True:
        words = [word for name, values in options.items() for value in values for word in (f"--{name}", value)]
        code, out, err, cpu_s = _imported(file, words)
        slowest = max(slowest, cpu_s)
        named = tuple(f"--{name}" for name in options)
        resolved = known if known is None else known or (code == 0 and "model" not in options)
        if code == 0:
            wrong = differences(entry, json.loads(out))
            if wrong:
                result = "refused" if "without" in options else "wrong"  # what was given up on purpose is not silent
                return Outcome(entry, result, "; ".join(wrong), named, slowest, resolved)
            return Outcome(entry, "given" if named else "right", "", named, slowest, resolved)
        if code not in (2, 3):
            return Outcome(entry, "failed", f"exit code {code}: {_last(err)}", named, slowest, resolved)
        text = _message(out, err).replace(str(file), "")
        if any(word.lower() in text.lower() for word in entry.refused):
            return Outcome(entry, "right", "", named, slowest, resolved)
        more = _chosen_block(entry, file, out) if "--block" in text else _asked(entry, text, options)
        more = {} if "block" in more and "block" in options else more
        if not more:
            return Outcome(entry, "refused", text, named, slowest, resolved)
        options |= more


def differences(entry: Entry, result: Any) -> list[str]:
    """Fields in which the result of an import differs from what the file says."""
    if isinstance(result, list):
        result = result[0]
    expected = entry.expected
    got = reading(result, expected)
    if expected["task"] in PREFERENCES:
        got["task"], expected = _preferences(expected, result.get("scenario", {}))
    elif entry.refused and expected["task"] not in ("pretrain", "sft", "lora", "qlora", got["task"]):
        return [f"task: the file says {' or '.join(entry.refused)}, the import {got['task']}"]
    claimed = {place for place, origin in result.get("origin", {}).items() if origin.get("line") is not None}
    found = []
    for name in FIELDS:
        wanted = expected[name]
        if wanted == ABSENT:
            places = _PLACES.get(name, ())
            places = (places,) if isinstance(places, str) else places
            stated = any(f".{claim}".endswith(f".{place}") for claim in claimed for place in places)
            if stated and got[name] not in (None, 1):
                found.append(f"{name}: the file does not say, the import {got[name]}")
        elif not _same(name, wanted, got[name]) and not (name == "model" and _shaped(entry.shape_of, got[name])):
            found.append(f"{name}: the file says {wanted}, the import {got[name]}")
    return found


def _preferences(expected: dict[str, Any], scenario: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The task of a step on preferences, and what its file says in the terms of a scenario: rows hold two sequences."""
    paired, referenced = PREFERENCES[expected["task"]]
    if referenced and not scenario.get("training", {}).get("reference_passes"):
        return _task(scenario), expected
    batch = expected["batch"]
    if paired and isinstance(batch, dict):
        batch = {name: value if name == "acc" else 2 * value for name, value in batch.items()}
    return expected["task"], {**expected, "batch": batch}


def reading(result: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """The ten fields of what an import printed."""
    if "scenario" not in result:  # the configuration of a model
        size = f"{result.get('num_hidden_layers')}x{result.get('hidden_size')}"
        stored = (result.get("stored_formats") or result.get("precision") or {}).get("weights")
        return {
            **dict.fromkeys(FIELDS),
            "format": "hf",
            "model": size,
            "task": "config",
            "precision": stored,
            "length": result.get("max_position_embeddings"),
        }
    scenario = result["scenario"]
    if scenario.get("training", {}).get("recipe"):  # what the recipe says and the scenario leaves to it
        scenario = fields_of(scenario)[0]
    model, cluster = scenario.get("model"), scenario.get("cluster", {})
    got: dict[str, Any] = {"format": result["format"], "model": model, "task": _task(scenario)}
    if "serving" in scenario:
        return got | _serving(scenario, model, expected)
    training, plan = scenario.get("training", {}), scenario.get("plan", {})
    devices = (cluster.get("nodes"), cluster.get("devices_per_node"))
    inner = plan.get("tp", 1) * plan.get("pp", 1) * plan.get("cp", 1)
    total = (devices[0] or 1) * (devices[1] or 1)
    return got | {
        "devices": f"{devices[0]}x{devices[1]}",
        "tp": plan.get("tp", 1),
        "pp": plan.get("pp", 1),
        "split": {"cp": 1, "ep": 1, "zero": 0, **plan, "dp": total // inner},
        "precision": training.get("precision", "bf16"),
        "length": training.get("seq_len"),
        "batch": {"mbs": plan.get("mbs", 1), "gbs": training.get("global_batch"), "replicas": total // inner},
    }


def _serving(scenario: dict[str, Any], model: Any, expected: dict[str, Any]) -> dict[str, Any]:
    serving = scenario["serving"]
    pools = serving.get("pools", [])
    first = pools[0] if pools else {}
    plan, limits = first.get("plan", {}), first.get("limits", {})
    devices, roles = 0, {"prefill": 0, "decode": 0}
    for pool in pools:
        own = pool.get("plan", {})
        size = own.get("tp", 1) * own.get("pp", 1) * own.get("dp", 1) * own.get("cp", 1)
        devices += size * pool.get("replicas", 1)
        roles[pool.get("role", "mixed")] = roles.get(pool.get("role", "mixed"), 0) + pool.get("replicas", 1)
    precision = serving.get("precision", {})
    weights = precision.get("weights") or precision.get("experts")
    if weights is None:
        name = model if isinstance(model, str) else str((model or {}).get("name", ""))
        named = [x for x in (expected["model"], name) if x != ABSENT]
        released = released_format(*named) if named else None
        stored = dict(released.formats) if released else {}
        weights = stored.get("weights") or stored.get("experts") or "bf16"
    return {
        "devices": devices,
        "tp": plan.get("tp", 1),
        "pp": plan.get("pp", 1),
        "split": {"cp": 1, "ep": 1, **plan, "dp": plan.get("dp", 1) * first.get("replicas", 1), **roles},
        "precision": weights,
        "length": limits.get("max_model_len"),
        "batch": limits.get("max_num_seqs"),
    }


def _task(scenario: dict[str, Any]) -> str:
    if "post_training" in scenario:
        return str(scenario["post_training"].get("algorithm", "post_training"))
    if "serving" in scenario:
        return "serve"
    training = scenario.get("training", {})
    lora = training.get("lora") or {}
    return "qlora" if lora.get("quantized_base") else str(training.get("phase", "lora" if lora else "pretrain"))


def _same(name: str, wanted: Any, got: Any) -> bool:
    if name == "model":
        return _same_model(str(wanted), got)
    if name == "format":
        return bool(got) and _plain(got) in (_plain(wanted), *OTHER_NAMES.get(str(wanted), ()))
    if name == "devices":
        total = _total(wanted)
        return total == _total(got) and ("x" not in str(wanted) or "x" not in str(got) or str(wanted) == str(got))
    if name == "split":
        return all(got.get(key, 1) == value for key, value in wanted.items())
    if name == "batch" and isinstance(wanted, dict):
        held = dict(got) if isinstance(got, dict) else {}
        if "acc" in wanted:
            held["acc"] = (held.get("gbs") or 0) / (held.get("mbs", 1) * held.get("replicas", 1))
        return all(held.get(key) == value for key, value in wanted.items())
    if name == "precision":
        return _plain(got).startswith(_plain(wanted))
    return bool(wanted == got)


def _same_model(wanted: str, got: Any) -> bool:
    if SIZES.fullmatch(wanted):
        if isinstance(got, str) and not SIZES.fullmatch(got):
            spec = catalog.model(got)
            got = f"{spec.num_hidden_layers}x{spec.hidden_size}"
        elif isinstance(got, dict):
            got = f"{got.get('num_hidden_layers')}x{got.get('hidden_size')}"
        return bool(got == wanted)
    if isinstance(got, dict):
        got = got.get("name", "")
        return _plain(wanted.rsplit("/", maxsplit=1)[-1]) in _plain(got)
    if got is None:
        return False
    if _plain(str(got).rsplit("/", maxsplit=1)[-1]) in _plain(wanted):  # a name that says its format: the model and it
        return True
    try:
        return bool(catalog.model(wanted).name == catalog.model(got).name)
    except BadInput:
        return False


def _shaped(other: str, got: Any) -> bool:
    return bool(other and isinstance(got, str)) and catalog.model(other).name == catalog.model(got).name


def _resolved(model: Any) -> bool | None:
    if model == ABSENT or SIZES.fullmatch(str(model)):
        return None
    try:
        checkpoint(str(model))
    except BadInput:
        return False
    return True


def _total(devices: Any) -> int:
    nodes, _, per_node = str(devices).partition("x")
    return int(nodes) * int(per_node or 1) if nodes.isdigit() else 0


def _plain(name: Any) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def _asked(entry: Entry, text: str, options: dict[str, list[str]]) -> dict[str, list[str]]:
    """Options that a message names and that can be given, with their values."""
    more: dict[str, list[str]] = {}
    for name in dict.fromkeys(_OPTION.findall(text)):
        value = _value(entry, name, text)
        if name == "env":
            pairs = [f"{key}={value}" for key, value in entry.given.get("env", {}).items() if str(key) in text]
            known = options.get("env", [])
            if set(pairs) - set(known):
                more["env"] = [*known, *(pair for pair in pairs if pair not in known)]
        elif name not in options and value is not None:
            more[name] = [str(value)]
    left = [name for name in dict.fromkeys(_WITHOUT.findall(text)) if name not in options.get("without", [])]
    return more or ({"without": [*options.get("without", []), *left]} if left else {})


def _chosen_block(entry: Entry, file: Path, out: str) -> dict[str, list[str]]:
    """Which of the blocks of a page holds the text that an entry names, by the lines that the message lists."""
    wanted = str(entry.given.get("block", ""))
    try:
        listed = [p for p in json.loads(out)["error"]["problems"] if (p["field"] or "").startswith("--block ")]
    except (ValueError, KeyError, TypeError):
        return {}
    text = file.read_text("utf-8", "replace")
    for found in re.finditer(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```", text, re.S | re.M):
        if wanted and wanted in " ".join(found[1].replace("\\\n", " ").split()):
            line = text.count("\n", 0, found.start()) + 1
            nearest = min(listed, key=lambda p: abs((p["line"] or 0) - line))
            if abs((nearest["line"] or 0) - line) <= 1:
                return {"block": [nearest["field"].split()[1]]}
    return {}


def _value(entry: Entry, name: str, text: str) -> Any:
    expected, given = entry.expected, entry.given
    if name in given:
        return given[name]
    if name == "device":
        return DEVICE
    stated = {key: expected[key] for key in FIELDS if expected[key] != ABSENT}
    nodes, _, per_node = str(stated.get("devices", "")).partition("x")
    batch = stated["batch"] if isinstance(stated.get("batch"), dict) else {}
    if name == "devices-per-node":
        return per_node or nodes or 8
    return {
        "nodes": nodes if per_node else 1,
        "model": None if SIZES.fullmatch(str(stated.get("model"))) else stated.get("model"),
        "seq-len": stated.get("length", 4096),
        "global-batch": batch.get("gbs"),
        "mbs": batch.get("mbs", 1),
        "vocab-size": 32000 if "vocab" in text else None,
    }.get(name)


def _message(out: str, err: str) -> str:
    """The problems of a refused import, a line each."""
    try:
        problems = json.loads(out)["error"]["problems"]
    except (ValueError, KeyError, TypeError):
        return err
    return "\n".join(
        " ".join(str(p[key]) for key in ("field", "value", "message", "hint") if p.get(key) is not None)
        for p in problems
    )


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def _imported(file: Path, options: list[str]) -> tuple[int, str, str, float]:
    """Exit code, output, messages and CPU seconds of an import in this process."""
    out, err = io.StringIO(), io.StringIO()
    before = time.process_time()
    try:
        with _limited(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(["import", str(file), "--json", *options])
    except TimeoutError:
        return 2, "", f"the import took more than {LIMIT_S} s", time.process_time() - before
    return code, out.getvalue(), err.getvalue(), time.process_time() - before


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
