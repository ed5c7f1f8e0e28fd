"""What YAML of clusters starts, as shell text: compose, Kubernetes, Helm values, graphs and tables of servers.

Deployments, StatefulSets, LeaderWorkerSets, AIBrix's roles, Dynamo's graphs, KServe, llm-d, vLLM's production stack;
other tables of servers are in `server_tables`. A container becomes the command that it runs, below a comment that says
how many there are of it, with how many devices, on how many nodes and in which part of a split deployment: the comment
that `export` writes too. Lines keep their numbers where the text has them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import yaml

from windtunnel.errors import BadInput, Problem
from windtunnel.files.parsing import MOST_DIGITS, NotYaml, whole_number, yaml_nodes
from windtunnel.importers.inner_script import inner_script
from windtunnel.importers.server_fields import pool_comment
from windtunnel.importers.server_tables import tables_text
from windtunnel.importers.shell import Word

_REFERENCE = re.compile(r"\$\(([A-Za-z_]\w*)\)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PROGRAM = re.compile(r"(?:/\S*/)?(?:(?:ba|z|da)?sh$|python|vllm$|sglang$|trtllm|torchrun|mpirun|uv$|ray$|env$|exec )")
"""First words of a command that do not leave the start to the image."""
_SIGNS = re.compile(
    r"^[ \t-]*(image|start_command|command|args|modelURL|containers|services|modelFormat|model|modelArtifacts"
    r"|applications|resources|llm_configs|backend|engine_args)[ \t]*:",
    re.MULTILINE,
)
_TEMPLATE = re.compile(r"\{\{(?:(?!\{\{).)*?\}\}", re.DOTALL)
_DEVICES = re.compile(r"(?:[\w.-]+/)?(?:[\w-]*gpu|neuron|gaudi|tpu|npu|Ascend\d+\w*)s?$", re.IGNORECASE)
"""A resource of a pod that is an accelerator: `nvidia.com/gpu`, `amd.com/gpu`, `google.com/tpu`, `gpu`."""
_MOST_OF_A_NAME = 100
_PARTS = re.compile(r"prefill|decode", re.IGNORECASE)
_HUB = re.compile(r"(?:hf|huggingface|modelscope)://(?P<name>[\w.-]+/[\w.-]+)")
_ROLE_LABELS = ("llm-d.ai/role", "role", "disaggregation", "component", "app.kubernetes.io/component")


def container_text(text: str) -> str:
    """The commands of the containers that a YAML file starts, as shell text; empty when the text is no such file.

    Environment variables come as `export`, and an image without a command as `docker run IMAGE`.
    """
    if ":" not in text or not _SIGNS.search(text):
        return ""
    documents = _documents(text)
    if not documents:
        return ""
    if table := tables_text(text):
        return table
    sheet = _Sheet()
    for document in documents:
        if _plain(_items(document).get("kind")) == "LLMInferenceService":
            _llm_service(_items(document), sheet)
            continue
        _walk(document, sheet, _Place(model=_model_of(document)))
    shell = sheet.text()
    slices = dict(re.findall(r"gke-tpu-(accelerator|topology)[\"']?:\s*[\"']?([\w-]+)", text))
    return (
        shell and f"{shell}# accelerator {slices['accelerator']}-{slices['topology']}\n" if len(slices) == 2 else shell
    )


def _documents(text: str) -> list[yaml.Node]:
    """The YAML documents of a text, with placeholders where Helm's templates have values."""
    try:
        return list(yaml_nodes(text))
    except NotYaml:
        if "{{" not in text:
            return []
    lines = []
    for line in text.splitlines():
        bare = _TEMPLATE.sub("", line).strip()
        lines.append(_TEMPLATE.sub("$TEMPLATE", line) if bare not in ("", "-") or "{{" not in line else "")
    try:
        return list(yaml_nodes("\n".join(lines)))
    except NotYaml:
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a container stands: copies, nodes of one, part of a split deployment, the model that is served."""

    copies: int = 1
    nodes: int = 1
    name: str = ""
    part: str = ""
    model: str = ""
    devices: int = 0
    job: int = 0
    """Nodes of the training job that the container is a part of."""
    tensor: str = ""
    data: str = ""


@dataclass(slots=True)
class _Sheet:
    """Lines of shell text by number, written downwards."""

    lines: dict[int, list[str]] = field(default_factory=dict)
    free: int = 0
    """The first line below everything that was written."""

    def put(self, line: int, text: str) -> None:
        """Write on a line, or on the next free one."""
        line = max(line, self.free)
        self.lines[line] = [text]
        self.free = line + 1

    def server(self, words: list[_Spelled], place: _Place, exports: list[str]) -> None:
        """Write a container: its variables, how many there are of it, its command."""
        begin = words[0][1]
        if exports:
            self.put(begin - 2, "; ".join(exports))
        pool = pool_comment(place.name, place.copies, place.devices or 1, place.part, place.nodes)
        self.put(begin - 1, pool)
        script = inner_script([Word(text, line) for text, line in words])
        if script is not None:
            for i, own in enumerate(_shell(script.text).splitlines()):
                self.put(script.line + i, own)
            return
        first = last = max(begin, self.free)
        for word, line in words:
            last = max(last, line)
            self.lines.setdefault(last, []).append(_quoted(word))
        for line in range(first, last):
            self.lines.setdefault(line, []).append("\\")
        self.free = last + 1

    def text(self) -> str:
        """All lines, the empty ones too."""
        if not self.lines:
            return ""
        return "\n".join(" ".join(self.lines.get(i, ())) for i in range(max(self.lines) + 1)) + "\n"


_Spelled = tuple[str, int]
"""A word and its line, from 0."""


def _items(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {str(key.value): value for key, value in node.value}


def _plain(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) and not node.tag.endswith(":null") else ""


def _size(node: yaml.Node | None) -> int:
    """A number of at least 0; -1 for anything else."""
    text = _plain(node)
    number = whole_number(text)
    if number is None and node is not None and re.fullmatch(r"\d+", text):
        line = node.start_mark.line + 1
        raise BadInput(Problem(f"line {line}", f"must be an integer of at most {MOST_DIGITS} digits", text))
    return -1 if number is None else number


def _model_of(document: yaml.Node) -> str:
    """The model that a chart's values or a service name once for all of its parts."""
    items = _items(document)
    inner = _items(items.get("spec"))
    for table in (_items(items.get("modelArtifacts")), _items(inner.get("model")), _items(inner.get("modelArtifacts"))):
        found = _HUB.search(_plain(table.get("uri")))
        if found:
            return found["name"]
        if name := _plain(table.get("name")):
            return name
    return ""


def _walk(node: yaml.Node, sheet: _Sheet, place: _Place) -> None:
    """Every container below a node, with the copies that its workload asks for."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _walk(item, sheet, place)
        return
    items = _items(node)
    place = _here(items, place)
    if place.copies == 0:
        return
    if _plain(items.get("modelURL")):
        _runtime(items, sheet, place)
        return
    if "modelFormat" in items:
        _kserve(items, sheet, place)
        return
    runs = items.keys() & {"command", "args", "entrypoint", "modelCommand"}
    if "start_command" in items or (("image" in items or "name" in items) and runs):
        _container(items, sheet, place)
        return
    if {"image", "environment"} <= items.keys():
        _container(items, sheet, place)
        return
    jobs = _items(items.get("pytorchReplicaSpecs"))
    place = replace(place, job=sum(max(_size(_items(part).get("replicas")), 1) for part in jobs.values()) or place.job)
    for key, value in items.items():
        if key not in ("initContainers", "status", "workerTemplate") or (
            key == "workerTemplate" and not items.keys() & {"leaderTemplate", "entryTemplate"}
        ):
            part = re.search("prefill|decode", key.lower())
            inner = replace(place, part=part[0]) if part else place
            _walk(value, sheet, replace(inner, name=inner.name or key))


def _here(items: Mapping[str, yaml.Node], place: _Place) -> _Place:
    """What a table says of the containers below it."""
    for key in ("replicas", "replicaCount", "minReplicas"):
        copies = _size(items.get(key))
        if copies >= 0 and not (key == "minReplicas" and copies == 0):
            place = replace(place, copies=copies)
    size = _size(items.get("size"))
    if size > 1 and items.keys() & {"leaderTemplate", "workerTemplate"}:
        place = replace(place, nodes=size)
    count = _size(_items(items.get("multinode")).get("nodeCount"))
    if count > 1:
        place = replace(place, nodes=count)
    ways = _items(items.get("parallelism"))
    if ways:
        place = replace(place, tensor=_plain(ways.get("tensor")), data=_plain(ways.get("data")))
    name = _plain(items.get("name"))
    metadata = _items(items.get("metadata"))
    labels = _items(metadata.get("labels"))
    said = [name, _plain(metadata.get("name")), *(_plain(labels.get(label)) for label in _ROLE_LABELS)]
    said += [_plain(items.get("subComponentType")), _plain(items.get("type"))]
    for word in said:
        part = _PARTS.search(word)
        if part:
            place = replace(place, part=part[0].lower())
    place = replace(place, name=name or place.name or _plain(metadata.get("name")))
    for table in (_items(_items(items.get("resources")).get(kind)) for kind in ("limits", "requests")):
        for resource, value in table.items():
            if _DEVICES.search(resource[-_MOST_OF_A_NAME:]) and (devices := _size(value)) > 0:
                return replace(place, devices=devices)
    return place


def _container(items: Mapping[str, yaml.Node], sheet: _Sheet, place: _Place) -> None:
    words = [word for key in ("entrypoint", "command", "start_command", "args") for word in _words(items.get(key))]
    image = items.get("image")
    kind = _plain(items.get("modelCommand"))
    if kind == "vllmServe" and place.model:
        line = items["modelCommand"].start_mark.line
        words = [("vllm", line), ("serve", line), (place.model, line), *_words(items.get("args"))]
    elif isinstance(image, yaml.ScalarNode) and not (words and _PROGRAM.match(words[0][0])):
        line = image.start_mark.line
        words = [("docker", line), ("run", line), (image.value, line), *words]
    if not words:
        return
    given = {word.partition("=")[0] for word, _ in words}
    last = words[-1][1]
    if kind and kind != "custom" and place.model and not any(word == place.model for word, _ in words):
        words += [("--model", last), (place.model, last)] if "--model" not in given else []
    for name, value in (("--tensor-parallel-size", place.tensor), ("--data-parallel-size", place.data)):
        if kind and (whole_number(value) or 0) > 1 and not given & {name, name.replace("-", "_"), "-tp"}:
            words += [(name, last), (value, last)]
    pairs = _environment(items.get("env") or items.get("environment"))
    if place.nodes > 1:
        pairs.append(("LWS_GROUP_SIZE", str(place.nodes)))
    if place.job and "NNODES" not in dict(pairs):
        pairs.append(("NNODES", str(place.job)))
    sheet.server(words, place, [f"export {variable}={shlex.quote(value)}" for variable, value in pairs])


def _words(node: yaml.Node | None) -> list[_Spelled]:
    """The words of a command: a list of them, or one line that is split as a shell does it."""
    if isinstance(node, yaml.SequenceNode):
        scalars = [item for item in node.value if isinstance(item, yaml.ScalarNode)]
        return [(item.value, item.start_mark.line + (item.style in ("|", ">"))) for item in scalars]
    if not isinstance(node, yaml.ScalarNode) or node.tag.endswith(":null"):
        return []
    out: list[_Spelled] = []
    line = node.start_mark.line + (node.style in ("|", ">"))
    try:
        return [(word, line) for word in shlex.split(node.value, comments=True)]
    except ValueError:
        for i, own in enumerate(node.value.splitlines()):
            out += [(word, line + i) for word in own.split()]
    return out


def _shell(text: str) -> str:
    """Text with variables as the shell writes them: Kubernetes has `$(X)` for them, compose `$$` for a dollar."""
    return _REFERENCE.sub(r"${\1}", text).replace("$$", "$")


def _quoted(word: str) -> str:
    """A word for the shell, with references to variables as the shell writes them."""
    plain = " ".join(_shell(word).split("\n"))
    if "$" not in plain:
        return shlex.quote(plain)
    escaped = plain.replace('"', '\\"')
    return f'"{escaped}"'


def _environment(node: yaml.Node | None) -> list[tuple[str, str]]:
    """Variables with values that are written out: Kubernetes' list, or compose's table or list."""
    found: list[tuple[str, str]] = []
    for key, value in _items(node).items():
        if isinstance(value, yaml.ScalarNode):
            found.append((key, value.value))
    for item in node.value if isinstance(node, yaml.SequenceNode) else ():
        own = [_items(item).get(key) for key in ("name", "value")]
        said = [part.value for part in own if isinstance(part, yaml.ScalarNode)]
        if len(said) == 2:
            found.append((said[0], said[1]))
        elif isinstance(item, yaml.ScalarNode) and "=" in item.value:
            variable, _, text = item.value.partition("=")
            found.append((variable, text))
    return [(key, value) for key, value in found if re.fullmatch(r"[A-Za-z_]\w*", key) and "\n" not in value]


def _runtime(items: Mapping[str, yaml.Node], sheet: _Sheet, place: _Place) -> None:
    """An engine of vLLM's production stack: `modelURL` and `vllmConfig`, as its chart passes them."""
    model = items["modelURL"]
    line = model.start_mark.line
    words: list[_Spelled] = [("vllm", line), ("serve", line), (str(model.value), line)]
    for key, value in {**_items(items.get("vllmConfig")), **_items(items.get("modelConfig"))}.items():
        if key == "extraArgs":
            words += _words(value)
        elif isinstance(value, yaml.ScalarNode) and value.value and key not in ("v0", "v1"):
            option, own = "--" + _CAMEL.sub("-", key).lower(), value.start_mark.line
            said = value.value.lower()
            if said in ("true", "false"):
                words.append((option if said == "true" else option.replace("--", "--no-", 1), own))
            else:
                words += [(option, own), (value.value, own)]
    if (count := _size(items.get("requestGPU"))) > 0:
        place = replace(place, devices=count)
    sheet.server(words, place, [])


def _kserve(items: Mapping[str, yaml.Node], sheet: _Sheet, place: _Place) -> None:
    """A predictor of KServe: its runtime serves a Hugging Face model with vLLM."""
    kind = _plain(_items(items["modelFormat"]).get("name")).lower()
    if kind not in ("huggingface", "vllm"):
        return
    line = items["modelFormat"].start_mark.line
    args = _words(items.get("args"))
    given = dict(_pairs(args))
    stored = _HUB.search(_plain(items.get("storageUri")))
    model = given.get("model_id") or given.get("model") or (stored["name"] if stored else "")
    if not model:
        model = given.get("model_name") or _plain(items.get("storageUri")).rsplit("/", 1)[-1]
    own = ("model_id", "model_name", "model", "model_revision", "backend", "task")
    rest: list[_Spelled] = []
    skip = False
    for word, at in args:
        name = word.lstrip("-").partition("=")[0].replace("-", "_")
        if word.startswith("--"):
            skip = name in own
        if not skip:
            rest.append((word, at))
    sheet.server([("vllm", line), ("serve", line), (model or "$MODEL", line), *rest], place, [])


def _llm_service(document: Mapping[str, yaml.Node], sheet: _Sheet) -> None:
    """An LLMInferenceService of KServe: its template runs `vllm serve` on the model of the service.

    Options follow in `VLLM_ADDITIONAL_ARGS` or as arguments of the container (kserve/kserve `config/llmisvcconfig`).
    """
    spec = _items(document.get("spec"))
    model = _items(spec.get("model"))
    found = _HUB.search(_plain(model.get("uri")))
    name = found["name"] if found else _plain(model.get("name"))
    for part, items in (("decode" if "prefill" in spec else "", spec), ("prefill", _items(spec.get("prefill")))):
        containers = _items(items.get("template")).get("containers")
        if not isinstance(containers, yaml.SequenceNode) or not containers.value:
            continue
        own = _items(containers.value[0])
        place = replace(_here(own, _here(items, _Place(name=part or "main"))), part=part)
        if own.keys() & {"command"}:
            _walk(containers, sheet, replace(place, model=name))
            continue
        line = containers.value[0].start_mark.line
        variables = dict(_environment(own.get("env")))
        words: list[_Spelled] = [(word, line) for word in ("vllm", "serve", name or "$MODEL")]
        words += _words(own.get("args"))
        words += [(word, line) for word in variables.pop("VLLM_ADDITIONAL_ARGS", "").split()]
        for option, size in (("--tensor-parallel-size", place.tensor), ("--data-parallel-size", place.data)):
            words += [(option, line), (size, line)] if (whole_number(size) or 0) > 1 else []
        sheet.server(words, place, [f"export {variable}={shlex.quote(value)}" for variable, value in variables.items()])


def _pairs(words: list[_Spelled]) -> list[tuple[str, str]]:
    """Options with their values, underscores for hyphens."""
    found: list[tuple[str, str]] = []
    for i, (word, _) in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            after = words[i + 1][0] if i + 1 < len(words) else ""
            found.append((name.replace("-", "_"), value if equals else after))
    return found
