"""The shell text inside other files: Markdown pages with fenced blocks, compose files, Kubernetes and Helm YAML.

Lines keep their numbers: the text that comes out has every word on the line where the file has it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from windtunnel.files.parsing import NotYaml, yaml_nodes

_FENCE = re.compile(
    r"^[ \t]*(?P<fence>```+|~~~+)[ \t]*(?P<kind>[\w+-]*)[^\n]*\n(?P<body>.*?)^[ \t]*(?P=fence)[ \t]*$", re.M | re.S
)
_OTHER_KINDS = frozenset("python py json js javascript ts typescript jsx tsx diff http html sql go rust text".split())
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_PROMPT = re.compile(r"^([ \t]*)\$[ \t]+(?=\S)", re.MULTILINE)
_REFERENCE = re.compile(r"\$\(([A-Za-z_]\w*)\)")
_HEREDOC = re.compile(
    r"(?:(?:cat|tee)\b[^\n]*?>{0,2}[ \t]*(?P<first>[\w./${}~-]+)?[ \t]*)<<-?[ \t]*['\"]?(?P<end>\w+)['\"]?"
    r"(?:[ \t]*>{1,2}[ \t]*(?P<second>\S+))?[^\n]*\n(?P<body>.*?)^[ \t]*(?P=end)[ \t]*$",
    re.M | re.S,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHELLS = re.compile(r"(?:/\S*/)?(?:ba|z|da)?sh")
_PROGRAM = re.compile(r"(?:/\S*/)?(?:(?:ba|z|da)?sh$|python|vllm$|sglang$|trtllm|torchrun|mpirun|uv$|ray$|env$|exec )")
"""First words of a command that do not leave the start to the image."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    line: int
    heading: str
    text: str
    """With the page's lines: as many line breaks in front as the page has."""


def is_page(text: str, file: str) -> bool:
    """Whether a text is a Markdown page: by its name, or by a fence where a script has none."""
    if file.lower().endswith((".md", ".mdx", ".markdown")):
        return True
    return _FENCE.search(text) is not None and _HEADING.search(text) is not None


def fenced_blocks(text: str) -> Iterator[Block]:
    """Every fenced block of a page that may hold shell text or YAML."""
    text = text.replace("\r\n", "\n")
    for match in _FENCE.finditer(text):
        if match["kind"].lower() in _OTHER_KINDS:
            continue
        before = text.count("\n", 0, match.start("body"))
        headings = _HEADING.findall(_FENCE.sub("", text[: match.start()]))
        body = _PROMPT.sub(r"\1", _dedent(match["body"]))
        yield Block(before + 1, headings[-1] if headings else "", "\n" * before + body)


def _dedent(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)


def written_files(text: str) -> dict[str, str]:
    """Name → text of the files that a script writes with a here-document."""
    found = {}
    for match in _HEREDOC.finditer(text):
        name = match["second"] or match["first"]
        if name:
            found[name.rsplit("/", 1)[-1]] = _dedent(match["body"])
    return found


def tidy(text: str) -> str:
    """A script as its author means it: continued lines with blanks or a comment behind the backslash, or one between.

    The shell ends the command there; pages and scripts in the wild are full of such lines.
    """
    text = text.replace("\r\n", "\n").replace("\u00a0", " ")
    text = re.sub(r"\\[ \t]+(#[^\n]*)?\n", "\\\\\n", text)
    return re.sub(r"(?<=\\\n)((?:[ \t]*#[^\n]*\n)+)", lambda m: "\\\n" * m.group().count("\n"), text)


def container_text(text: str) -> str:
    """The commands of the containers that a compose file, Kubernetes manifests or Helm values start, as shell text.

    Empty when the text is no such file. Environment variables come as `export`, an image without a command as
    `docker run IMAGE`, and copies of a container as the comment in which exported scripts keep them.
    """
    if ":" not in text or not re.search(
        r"^[ \t-]*(image|command|args|modelURL|containers|services)[ \t]*:", text, re.M
    ):
        return ""
    try:
        documents = yaml_nodes(text)
    except NotYaml:
        return ""
    sheet = _Sheet()
    for document in documents:
        _walk(document, sheet, copies=1)
    return sheet.text()


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

    def server(self, words: list[_Spelled], name: str, copies: int, exports: list[str]) -> None:
        """Write a container: its variables, how many there are of it, its command."""
        begin = words[0][1]
        if exports:
            self.put(begin - 2, "; ".join(exports))
        plain = re.sub(r"[^\w.-]", "-", name) or "server"
        self.put(begin - 1, f"# pool {plain}: {copies} of 1 devices")
        script = _script(words)
        if script is not None:
            for i, own in enumerate(script[0].splitlines()):
                self.put(script[1] + i, own)
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


def _walk(node: yaml.Node, sheet: _Sheet, copies: int, name: str = "") -> None:
    """Every container below a node, with the copies that its Deployment asks for."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _walk(item, sheet, copies, name)
        return
    items = _items(node)
    for key in ("replicas", "replicaCount"):
        own = items.get(key)
        if isinstance(own, yaml.ScalarNode) and own.value.isdigit():
            copies = max(int(own.value), 1)
    named = items.get("name")
    name = named.value if isinstance(named, yaml.ScalarNode) else name
    if isinstance(items.get("modelURL"), yaml.ScalarNode):
        _runtime(items, sheet, copies, name)
        return
    runs = items.keys() & {"command", "args", "entrypoint"}
    if (("image" in items or "name" in items) and runs) or {"image", "environment"} <= items.keys():
        _container(items, sheet, copies, name)
        return
    for key, value in items.items():
        if key not in ("initContainers", "status"):
            _walk(value, sheet, copies, name or key)


def _container(items: Mapping[str, yaml.Node], sheet: _Sheet, copies: int, name: str) -> None:
    words = _words(items.get("entrypoint")) + _words(items.get("command")) + _words(items.get("args"))
    image = items.get("image")
    if isinstance(image, yaml.ScalarNode) and not (words and _PROGRAM.match(words[0][0])):
        line = image.start_mark.line
        words = [("docker", line), ("run", line), (image.value, line), *words]
    if words:
        pairs = _environment(items.get("env") or items.get("environment"))
        sheet.server(words, name, copies, [f"export {variable}={shlex.quote(value)}" for variable, value in pairs])


def _script(words: list[_Spelled]) -> _Spelled | None:
    """The script of `bash -c SCRIPT`, and its line."""
    for i, (word, _) in enumerate(words[:-2]):
        if _SHELLS.fullmatch(word) and re.fullmatch(r"-\w*c", words[i + 1][0]):
            return words[i + 2]
    return None


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


def _quoted(word: str) -> str:
    """A word for the shell, with references to variables as the shell writes them."""
    plain = " ".join(_REFERENCE.sub(r"${\1}", word).replace("$$", "$").split("\n"))
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


def _runtime(items: Mapping[str, yaml.Node], sheet: _Sheet, copies: int, name: str) -> None:
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
    sheet.server(words, name, copies, [])
