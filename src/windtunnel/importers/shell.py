"""Just enough shell to see which words a launch script passes: variables, arrays, continuations, simple conditions.

Nothing is executed. What cannot be known without running the script (command substitutions, positional parameters,
loops, conditions on unset variables) stays visible: the literal `$NAME` in a word, or a note with its line.
"""

from __future__ import annotations

import ast
import fnmatch
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from windtunnel.errors import BadInput, Problem
from windtunnel.importers.launch_text import Ends
from windtunnel.importers.named_files import text_below

_NAME = r"[A-Za-z_]\w*|\d|[@*#?]"
_BRACED = rf"\d+|{_NAME}"
"""Positional parameters from the tenth on stand in braces alone: `$12` is `$1` and a 2 (Bash manual, 3.4.1)."""
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_EXPANSION = re.compile(
    r"\$\(\((?P<arith>(?:(?!\$\(\().)*?)\)\)|(?P<command>\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`)"
    rf"|\$\{{(?P<braced>{_BRACED})(?P<index>\[[@*]\])?(?P<op>:?[-=?+])?(?P<default>(?:[^{{}}]|\{{[^{{}}]*\}})*)\}}"
    rf"|\$(?P<bare>{_NAME})",
    re.DOTALL,
)
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-lt": operator.lt,
    "-ge": operator.ge,
    "-le": operator.le,
}
_EXPR = re.compile(r"\$\(\s*expr\s+([^()`\s][^()`]*)\)|`\s*expr\s+([^()`\s][^()`]*)`")
_PREFIXES = (
    "then",
    "do",
    "{",
    "}",
    "!",
    "time",
    "exec",
    "sudo",
    "env",
    "nohup",
    "export",
    "local",
    "readonly",
    "declare",
)
_QUIET = ("echo", "printf", "mkdir", "cd", "source", ".", "exit", "set", "return", "true", ":", "wait", "sleep")
_SOURCES = ("source", ".")
_DEEPEST = 5
"""Files that source each other, at most."""
_MOST_OF_A_SUM = 1_000
"""Characters of an arithmetic expression that is worked out."""
_MOST_MATCHED = 200
"""Characters of a text that a condition compares with a pattern."""
_MOST_QUANTIFIERS = 3
"""Repetitions in such a pattern: a regular expression with many takes for ever, and nested ones with two."""
_MOST_FRAMES = 100
_MOST_WORDS = 100_000
_MOST_CHARACTERS = 4_000_000
"""Characters of all words of a script, with variables that hold others."""
_MOST_SOURCED = 100
"""Files that a script and what it sources read, at most."""
_SETTINGS_OF_SHELLS = re.compile(r"(^|/)\.|activate|conda|profile|rc$|(^|[/_])env(ironment|_vars|_setup)?(\.|$)|^~|^/")
"""Sourced files that set up a shell, not a run."""
_INTO_VARIABLE = re.compile(
    r"^(?P<head>[ \t]*)read\b[^\n<]*?[ \t](?P<name>[A-Za-z_]\w*)[ \t]*<<-?[ \t]*['\"]?(?P<end>\w+)['\"]?[^\n]*\n", re.M
)
"""`read -r -d '' NAME <<EOF`, whose text a script runs as `$NAME`."""
CONTINUED = "\v"
"""Stands, before a line break inside double quotes, for the backslash that joins two lines: white space as both are."""
_SUBSTITUTION = re.compile(r"\$\((?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*\)")
"""A command whose output stands in a word; quotes inside it are its own."""
_HERE_STRING = re.compile(r"^([ \t]*(?:IFS=\S+[ \t]+)?read[ \t][^\n<;|&]*)<<<", re.M)
_LOOPS = {"for": "done", "while": "done", "until": "done", "select": "done", "case": "esac"}


@dataclass(frozen=True, slots=True)
class Word:
    """One argument and the line that it was written on."""

    text: str
    line: int


@dataclass(slots=True)
class _Raw:
    """A word before expansion: pieces of (quote, text), or the elements of an array assignment."""

    line: int
    pieces: list[tuple[str, str]] = field(default_factory=list)
    array: list[_Raw] | None = None

    @property
    def literal(self) -> str:
        return "".join(text for _, text in self.pieces)


@dataclass(slots=True, kw_only=True)
class _Frame:
    """A compound command: whether what surrounds it runs, and what its condition was (None: unknown)."""

    outer: bool
    end: str
    condition: bool | None = None
    testing: bool = False
    line: int = 0
    undecided: bool = False
    """A branch was skipped for want of a value, and has not been noted yet."""
    unset: str = ""
    """A variable of its condition that the script does not set."""
    otherwise: bool = False
    """In the `else` of a condition that cannot be decided."""
    decided: bool = False
    """A loop that is read with its first value, or a `case` of which the branch is known."""
    subject: str = ""
    """What a `case` compares."""
    patterns: list[_Raw] | None = field(default_factory=list)
    """Patterns in front of the next branch of a `case`; None inside a branch."""
    taken: bool = False
    """One of its branches has fitted."""
    within: bool = False
    """Inside something of which nobody knows whether it runs."""

    @property
    def maybe(self) -> bool:
        """Whether what stands in its branches may run."""
        return self.within or (self.outer and not self.decided and (self.end != "fi" or self.condition is None))


@dataclass(frozen=True, slots=True)
class Hanging:
    """What a variable holds in a branch of which nobody knows whether it runs."""

    words: tuple[Word, ...]
    line: int
    """Of the condition or loop."""
    asks: str
    """A variable of the condition that the script does not set; empty where there is none."""


@dataclass(slots=True)
class Script:
    """Commands that run, expanded, and what was set."""

    commands: list[list[Word]] = field(default_factory=list)
    variables: dict[str, list[Word]] = field(default_factory=dict)
    notes: list[tuple[str, int, str]] = field(default_factory=list)
    """(what, line, why it was not read)."""
    defaults: list[tuple[str, str, int]] = field(default_factory=list)
    """(variable, default value that stands in for it, line)."""
    unset: list[tuple[str, int]] = field(default_factory=list)
    """(variable that the script tests for being set and does not set itself, line): counted as not set."""
    skipped: list[list[Word]] = field(default_factory=list)
    """Commands in loops and under conditions that cannot be decided."""
    hanging: dict[str, list[Hanging]] = field(default_factory=dict)
    """Variable → what branches that may run set it to."""
    referred: set[str] = field(default_factory=set)
    """Variables that commands and values refer to."""
    missing: list[tuple[str, int]] = field(default_factory=list)
    """(file that the script sources and that is not below its folder, line)."""


def read_script(text: str, env: Mapping[str, str], file: str = "", *, once: bool = False) -> Script:
    """Read a script.

    Args:
        text: the script.
        env: values of variables that it takes from outside.
        file: where it lies; files that it sources are read where they lie below its folder. Nothing is executed.
        once: whether a loop over values that are known is read with the first of them.
    """
    text = _HERE_STRING.sub(lambda found: found[1] + "'<<<'", _with_variables(text))
    return _Reader(text, env, file, once=once).read()


def _with_variables(text: str) -> str:
    """A script whose here-documents that are read into variables are values of them; lines keep their numbers."""
    text = text.replace("\r\n", "\n")
    ends, out, at = Ends(text), "", 0
    for found in _INTO_VARIABLE.finditer(text):
        close = ends.after(found["end"], found.end())
        if close is not None and found.start() >= at:
            body = text[found.end() : close[0]].replace('"', '\\"')
            out += f'{text[at : found.start()]}{found["head"]}{found["name"]}="\n{body}"'
            at = close[1]
    return out + text[at:]


def split(word: Word) -> list[Word]:
    """The words inside a word, each with its own line."""
    return [
        Word(m.group().strip("'\""), word.line + word.text.count("\n", 0, m.start()))
        for m in re.finditer(r"'[^']*'|\S+", word.text)
    ]


class _Reader:
    def __init__(self, text: str, env: Mapping[str, str], file: str = "", *, once: bool = False) -> None:
        self.file, self.once = file or None, once
        self.text = text.replace("\r\n", "\n")
        self.folder = Path(file).parent if file not in ("", "-") else None
        self.depth = 0
        self.sourced = 0
        self.words = self.characters = 0
        self.line: int | None = None
        """The line that sources the file that is read."""
        self.given = dict(env)
        self.script = Script()
        self.frames: list[_Frame] = []
        self.otherwise: dict[str, list[Word]] = {}
        """What the `else` of an undecided condition sets; stands in for variables that nothing else sets."""
        self.active = True
        self.last: bool | None = None

    def read(self) -> Script:
        for joint, command in self._commands(self.text):
            self._run(joint, command)
        return self.script

    def _source(self, command: list[_Raw]) -> None:
        """Read a file that the script sources, where it lies below the script's folder."""
        if self.folder is None or len(command) < 2:
            return
        name = " ".join(word.text for word in self.expand(command[1]))
        rest = re.split(r"[`)}]|\$\w+", name)[-1]
        unknown = rest != name
        rest = rest.lstrip("/") if unknown else rest
        self.sourced += 1
        text = text_below(self.folder, rest) if self.depth < _DEEPEST and self.sourced <= _MOST_SOURCED else None
        if text is None:
            if rest and not _SETTINGS_OF_SHELLS.search(rest):
                self.script.missing.append((rest, command[0].line))
            return
        outer, self.depth = self.line, self.depth + 1
        self.line = command[0].line
        frames, self.frames = self.frames, []
        for joint, inner in self._commands(_with_variables(text)):
            self._run(joint, inner)
        self.frames, self.active = frames, True
        self.line, self.depth = outer, self.depth - 1

    # -- words

    def _commands(self, text: str) -> Iterator[tuple[str, list[_Raw]]]:
        """(what joins it to the one before, words) of each simple command."""
        words: list[_Raw] = []
        joint = "\n"
        at = self.line
        for token in _Lexer(text).tokens():
            if isinstance(token, _Raw):
                if at is not None:
                    _place(token, at)
                words.append(token)
                self._count(1, 0, token.line)
                continue
            if words:
                yield joint, words
            elif token == "\n":
                continue
            words, joint = [], token
        if words:
            yield joint, words

    def expand(self, raw: _Raw) -> list[Word]:
        """The words that a word becomes.

        Raises:
            BadInput: the words of the script, one made of others, are more than `_MOST_WORDS` or `_MOST_CHARACTERS`.
        """
        words = self._expanded(raw)
        self._count(len(words), sum(len(word.text) for word in words), raw.line)
        return words

    def _count(self, words: int, characters: int, line: int) -> None:
        self.words += words
        self.characters += characters
        if self.words > _MOST_WORDS or self.characters > _MOST_CHARACTERS:
            rule = f"stands for more than {_MOST_WORDS:,} words or {_MOST_CHARACTERS:,} characters, variables expanded"
            raise BadInput(Problem("", rule, file=self.file, line=line))

    def _expanded(self, raw: _Raw) -> list[Word]:
        if len(raw.pieces) == 1 and raw.pieces[0][0] != "'":
            quote, text = raw.pieces[0]
            whole = _EXPANSION.fullmatch(text)
            name = whole and not whole["op"] and not whole["default"] and (whole["braced"] or whole["bare"])
            if name:
                self.script.referred.add(name)
            if whole and name and name in self.script.variables and name not in self.given:
                words = self.script.variables[name]
                if not quote:
                    return [inner for word in words for inner in split(word)]
                return list(words) if whole["index"] else [Word(" ".join(w.text for w in words), raw.line)]
        out, divided = "", False
        for quote, text in raw.pieces:
            if quote == "'":
                out += text
                continue
            new = _EXPANSION.sub(lambda m: self._value(m, raw.line), text)
            divided |= not quote and new != text
            out += new
        return split(Word(out, raw.line)) if divided else [Word(out, raw.line)]

    def _value(self, match: re.Match[str], line: int) -> str:
        if match["arith"] is not None:
            return self._arithmetic(match["arith"], match.group(), line)
        name = match["braced"] or match["bare"]
        if not name:
            plain = _EXPR.fullmatch(match.group())
            return match.group() if plain is None else self._arithmetic(plain[1] or plain[2], match.group(), line)
        self.script.referred.add(name)
        known: str | None = self.given.get(name)
        if known is None and name in self.script.variables:
            known = (
                " ".join(word.text for word in self.script.variables[name])
                .replace(f"{CONTINUED}\n", " ")
                .replace("\n", " ")
            )
        op, rest = match["op"] or "", match["default"] or ""
        if known is None and name in self.otherwise and not op:
            known = (
                " ".join(word.text for word in self.otherwise[name]).replace(f"{CONTINUED}\n", " ").replace("\n", " ")
            )
            if (name, known, line) not in self.script.defaults:
                self.script.defaults.append((name, known, line))
        if not op and rest:  # ${X%.*} and the like
            return match.group()
        if known:
            return known
        if op in (":-", "-", ":=", "="):
            default = _EXPANSION.sub(lambda m: self._value(m, line), rest.strip("\"'"))
            if known is None and default and (name, default, line) not in self.script.defaults:
                self.script.defaults.append((name, default, line))
            if op.endswith("="):
                self.script.variables[name] = [Word(default, line)]
            return default
        return known if known is not None else f"${name}"

    def _arithmetic(self, text: str, whole: str, line: int) -> str:
        plain = _EXPANSION.sub(lambda m: self._value(m, line), text).replace("\\*", "*")
        for _ in range(_DEEPEST):
            if len(plain) > _MOST_OF_A_SUM:
                return whole
            plain = re.sub(r"\b[A-Za-z_]\w*", lambda name: self._number(name[0]), plain)
        try:
            return str(_integer(ast.parse(plain.strip(), mode="eval").body))
        except (ValueError, SyntaxError, ZeroDivisionError, RecursionError):
            return whole

    def _number(self, name: str) -> str:
        """The value of a variable inside a sum; its name where it has none that a sum can hold."""
        value = self.given.get(name)
        if value is None:
            value = " ".join(word.text for word in self.script.variables.get(name, []))
        return f"({value})" if value and len(value) <= _MOST_OF_A_SUM else name

    # -- commands

    def _run(self, joint: str, command: list[_Raw]) -> None:
        first = command[0].literal
        frame = self.frames[-1] if self.frames else None
        if len(self.frames) > _MOST_FRAMES:
            rule = f"has more than {_MOST_FRAMES} conditions and loops inside each other"
            raise BadInput(Problem("", rule, file=self.file, line=command[0].line))
        if frame is not None and frame.end == "esac" and frame.decided and first != "esac":
            if not self._branch(frame, joint, command):
                return
        if first in ("if", "elif"):
            if first == "if":
                within = frame is not None and frame.maybe and not self.active
                frame = _Frame(outer=self.active, end="fi", line=command[0].line, within=within)
                self.frames.append(frame)
                frame.condition = self._test(command[1:]) if self.active else False
                frame.unset = self._unset(command[1:])
                frame.testing = True
            elif frame is not None:
                frame.testing = frame.condition is False and frame.outer
                if frame.testing:
                    frame.condition = self._test(command[1:])
                    frame.unset = self._unset(command[1:])
            return
        if first == "for" and self.once and self.active and self._first_value(command):
            return
        if first == "do" and frame is not None and frame.end == "done" and frame.decided:
            if command[1:]:
                self._run("\n", command[1:])
            return
        if first == "case" and self.active and self._case(command):
            return
        if first in _LOOPS:
            if self.active:
                self.script.notes.append((first, command[0].line, f"what this {first} sets or runs is not read"))
            within = frame is not None and frame.maybe and not self.active
            unset = self._unset(command[1:]) if first == "case" else ""
            made = _Frame(outer=self.active, end=_LOOPS[first], line=command[0].line, unset=unset, within=within)
            self.frames.append(made)
            self.active = False
            return
        if frame is not None and first == frame.end:
            self.frames.pop()
            self.active = frame.outer
            return
        if frame is not None and frame.end == "fi" and first in ("then", "else"):
            if first == "then":
                frame.undecided |= frame.testing and frame.condition is None and frame.outer
                self.active = frame.outer and frame.testing and frame.condition is True
                frame.testing = False
            else:
                self.active = frame.outer and frame.condition is False
                frame.otherwise = frame.outer and frame.condition is None
            command = command[1:]
            if command:
                self._run("\n", command)
            return
        if frame is not None and frame.testing and frame.end == "fi" and joint in ("&&", "||"):
            frame.condition = _combine(joint, frame.condition, self._test(command))
            return
        self._simple(joint, command)

    def _case(self, command: list[_Raw]) -> bool:
        """Begin a `case` of a value that is known; False where it is not."""
        subject = " ".join(word.text for raw in command[1:2] for word in self.expand(raw))
        if not subject or re.search(r"[$`]", subject):
            return False
        frame = _Frame(outer=True, end="esac", line=command[0].line, decided=True, subject=subject)
        frame.patterns = command[3:4]
        self.frames.append(frame)
        self.active = False
        return True

    def _branch(self, frame: _Frame, joint: str, command: list[_Raw]) -> bool:
        """Whether a command inside a `case` stands in a branch; what does not is a pattern."""
        if joint == ";;":
            frame.patterns, self.active = [], False
        if frame.patterns is None:
            return True
        if joint != ")":
            frame.patterns.append(command[0])
            return False
        fits = any(self._matches(frame.subject, pattern, "==") is True for pattern in frame.patterns)
        self.active = frame.outer and fits and not frame.taken
        frame.taken |= fits
        frame.patterns = None
        return True

    def _first_value(self, command: list[_Raw]) -> bool:
        """Begin a loop over values that are known with the first of them; False where they are not."""
        if len(command) < 4 or command[2].literal != "in":
            return False
        values = [word for raw in command[3:] for word in self.expand(raw)]
        if not values or any(re.search(r"[$`*?]", word.text) for word in values):
            return False
        name, line = command[1].literal, command[0].line
        self.script.variables[name] = values[:1]
        if len(values) > 1:
            why = f"a loop over {len(values)} values is read with the first, {values[0].text}"
            self.script.notes.append(("for", line, why))
        self.frames.append(_Frame(outer=True, end="done", line=line, decided=True))
        return True

    def _read_into(self, command: list[_Raw]) -> bool:
        """`IFS=, read -r A B <<< "$WORDS"`: the parts of a text as variables; False for anything else."""
        words = [raw.literal for raw in command]
        start = 1 if words[0].startswith("IFS=") else 0
        if words[start : start + 1] != ["read"] or "<<<" not in words or words[-1] == "<<<":
            return False
        names = [word for word in words[start + 1 : words.index("<<<")] if not word.startswith("-")]
        text = " ".join(word.text for word in self.expand(command[-1]))
        parts = text.split(words[0][4:5]) if start and words[0][4:5].strip() else text.split()
        for name, part in zip(names, parts, strict=False):
            self.script.variables[name] = [Word(part.strip(), command[0].line)]
        return True

    def _simple(self, joint: str, command: list[_Raw]) -> None:
        if not self.active:
            self._skipped(command)
            return
        if self._read_into(command):
            return
        if command[0].literal in _SOURCES:
            self._source(command)
            return
        if command[-1].literal == "]]" and command[0].literal != "[[" and joint in ("&&", "||"):
            self.last = _combine(joint, self.last, self._test(command))
            return
        if joint in ("&&", "||") and self.last is not (joint == "&&") and command[0].literal != "[":
            own = command[command[0].literal in _PREFIXES :]
            if self.last is None and own and all(raw.array is not None or _ASSIGN.match(raw.literal) for raw in own):
                why = "depends on a condition that cannot be decided from the script"
                self.script.notes.append((command[0].literal, command[0].line, why))
            elif self.last is None:
                self._keep(command)
            return
        if command[0].literal in ("[", "[[", "test"):
            self.last = self._test(command)
            return
        self.last = True
        while command and command[0].literal in _PREFIXES:
            declares = command[0].literal in ("export", "local", "readonly", "declare")
            command = command[1:]
            while declares and command and command[0].literal.startswith("-"):
                command = command[1:]
        while command and (command[0].array is not None or _ASSIGN.match(command[0].literal)):
            self._assign(command[0])
            command = command[1:]
        if command:  # what is no test is taken to succeed
            self.last = True
            self._keep(command)

    def _skipped(self, command: list[_Raw]) -> None:
        """Note a condition that could not be decided, once, when something that matters hangs on it."""
        if command[0].literal in _QUIET:
            return
        if self.frames[-1].maybe:
            self._hangs(command)
        if self.frames[-1].otherwise:
            self._stand_in(command)
        if len(command) > 1 and all(frame.condition is None for frame in self.frames if frame.end == "fi"):
            self.script.skipped.append([word for raw in command for word in self.expand(raw)])
        for frame in self.frames:
            if frame.undecided:
                frame.undecided = False
                why = "the condition cannot be decided from the script; neither branch is read"
                if frame.unset:
                    why += f"; it asks for ${frame.unset}, which --env {frame.unset}=… sets"
                self.script.notes.append(("if", frame.line, why))

    def _hangs(self, command: list[_Raw]) -> None:
        """Keep what a branch sets that may run."""
        before = dict(self.script.variables)
        frame = next((own for own in self.frames if own.maybe), self.frames[-1])
        asks = next((own.unset for own in self.frames if own.maybe and own.unset), "")
        for raw in command[command[0].literal in _PREFIXES :]:
            found = _ASSIGN.match(raw.literal)
            if not found:
                continue
            referred = set(self.script.referred)
            self._assign(raw)
            self.script.referred = referred
            words = tuple(self.script.variables[found.group(1)])
            if words != tuple(before.get(found.group(1), ())):
                self.script.hanging.setdefault(found.group(1), []).append(Hanging(words, frame.line, asks))
        self.script.variables = before

    def _stand_in(self, command: list[_Raw]) -> None:
        """Keep what an `else` sets, for variables that nothing else sets."""
        before = dict(self.script.variables)
        for raw in command[command[0].literal == "export" :]:
            found = _ASSIGN.match(raw.literal)
            if found and not found.group(2):
                self._assign(raw)
                self.otherwise.setdefault(found.group(1), self.script.variables[found.group(1)])
        self.script.variables = before

    def _keep(self, command: list[_Raw]) -> None:
        words = [word for raw in command for word in self.expand(raw)]
        if words and words[0].text not in _QUIET:
            self.script.commands.append(words)

    def _assign(self, raw: _Raw) -> None:
        found = _ASSIGN.match(raw.literal)
        if not found:
            return
        name, more = found.groups()
        if raw.array is not None:
            words = [word for element in raw.array for word in self.expand(element)]
        else:
            quote, head = raw.pieces[0]
            rest = [(quote, head[found.end() :]), *raw.pieces[1:]]
            value = _Raw(raw.line, [piece for piece in rest if piece[1]])
            if len(value.pieces) == 1 and value.pieces[0][0] == "":
                value.pieces = [('"', value.pieces[0][1])]
            words = self._extended(value) if value.pieces else [Word("", raw.line)]
        before = self.script.variables.get(name, []) if more else []
        if more and raw.array is None and before:
            words = [*before, *words]
        else:
            words = [*before, *words]
        self.script.variables[name] = words

    def _extended(self, value: _Raw) -> list[Word]:
        """The words of a new value; one that begins with another variable keeps that one's lines (`A="$A more"`)."""
        quote, text = value.pieces[0]
        start = _EXPANSION.match(text) if quote == '"' else None
        name = start and not start["op"] and not start["default"] and (start["braced"] or start["bare"])
        if not start or not name or name not in self.script.variables or name in self.given:
            return self.expand(value)
        rest = text[start.end() :]
        if not rest[:1].isspace():
            return self.expand(value)
        return [*self.script.variables[name], *self.expand(_Raw(value.line, [(quote, rest), *value.pieces[1:]]))]

    def _unset(self, command: list[_Raw]) -> str:
        """The first variable of a condition that is still one after all expansions."""
        words = " ".join(word.text for raw in command for word in self.expand(raw))
        found = re.search(r"\$(\w+)", words)
        return found.group(1) if found else ""

    def _test(self, command: list[_Raw]) -> bool | None:
        """A test's outcome, None when it cannot be known."""
        items = [" ".join(word.text for word in self.expand(raw)) for raw in command]
        items = [item for item in items if item not in ("[", "[[", "]", "]]", "test")]
        if len(items) == 1 and command[0].literal in ("[", "[[", "test") and "$" not in items[0]:
            return bool(items[0])
        negated = items[:1] == ["!"]
        items = items[1:] if negated else items
        double = "[[" in (own := [raw.literal for raw in command]) or "]]" in own
        if double and len(items) == 3 and items[1] in ("=", "==", "!=", "=~"):
            raws = [raw for raw in command if raw.literal not in ("[[", "]]", "!")]
            value = self._matches(items[0], raws[-1], items[1]) if len(raws) == 3 else None
            return None if value is None else value is not negated
        if len(items) == 2 and items[0] in ("-z", "-n") and (name := re.fullmatch(r"\$([A-Za-z_]\w*)", items[1])):
            found = (name.group(1), command[0].line)
            if found not in self.script.unset:
                self.script.unset.append(found)
            items[1] = ""
        value = _outcome(items)
        return None if value is None else value is not negated

    def _matches(self, text: str, pattern: _Raw, how: str) -> bool | None:
        """Whether a text fits a pattern of `[[`, whose quoted parts stand for themselves (Bash manual, 3.2.5.2)."""
        parts = []
        for quote, piece in pattern.pieces:
            own = piece if quote == "'" else _EXPANSION.sub(lambda m: self._value(m, pattern.line), piece)
            if re.search(r"\$[\w({]|`", own):
                return None
            plain = own if how == "=~" else fnmatch.translate(own).removeprefix("(?s:").removesuffix(")\\Z")
            parts.append(re.escape(own) if quote else plain)
        if re.search(r"[$`]", text):
            return None
        whole = "".join(parts)
        quantifiers = re.findall(r"[*+?{]", "".join(piece for quote, piece in pattern.pieces if not quote))
        if (
            len(text) > _MOST_MATCHED
            or len(quantifiers) > _MOST_QUANTIFIERS
            or (how == "=~" and re.search(r"\)[*+{]", whole))
        ):
            return None
        try:
            found = re.search(whole, text) if how == "=~" else re.fullmatch(whole, text, re.DOTALL)
        except re.error:
            return None
        return (found is not None) is (how != "!=")


def _place(raw: _Raw, line: int) -> None:
    """Put a word, and the elements of an array, on a line."""
    raw.line = line
    for element in raw.array or []:
        _place(element, line)


def _outcome(items: list[str]) -> bool | None:
    if any("$" in item or "`" in item for item in items):
        return None
    if len(items) == 2 and items[0] in ("-n", "-z"):
        return bool(items[1]) is (items[0] == "-n")
    if len(items) == 3 and items[1] in ("=", "==", "!="):
        if any(c in items[2] for c in "*?["):
            return None
        return (items[0] == items[2]) is (items[1] != "!=")
    if len(items) == 3 and items[1] in _COMPARE:
        try:
            return _COMPARE[items[1]](int(items[0]), int(items[2]))
        except ValueError:
            return None
    return None


def _combine(joint: str, a: bool | None, b: bool | None) -> bool | None:
    if joint == "&&":
        return False if a is False or b is False else (None if a is None or b is None else True)
    return True if a is True or b is True else (None if a is None or b is None else False)


def _integer(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_integer(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_integer(node.left), _integer(node.right))
    raise ValueError("not integer arithmetic")


class _Lexer:
    """Text to words and the operators between commands."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.line = text, 0, 1
        self.in_array = False

    def tokens(self) -> Iterator[_Raw | str]:
        text = self.text
        while self.at < len(text):
            c = text[self.at]
            if c == "\n":
                self._skip(1)
                yield "\n"
            elif c in " \t":
                self._skip(1)
            elif text.startswith("\\\n", self.at):
                self._skip(2)
            elif c == "#":
                self._comment()
            elif text.startswith(("&&", "||", ";;"), self.at):
                self._skip(2)
                yield text[self.at - 2 : self.at]
            elif c in ";|&()":
                self._skip(1)
                yield c
            elif c in "<>" or re.match(r"\d[<>]", text[self.at : self.at + 2]):
                self._redirection()
            else:
                yield self._word()

    def _skip(self, count: int) -> None:
        self.line += self.text.count("\n", self.at, self.at + count)
        self.at += count

    def _comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _redirection(self) -> None:
        here = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?").match(self.text, self.at)
        if here:
            end = re.compile(rf"^[ \t]*{re.escape(here.group(1))}[ \t\r]*$", re.MULTILINE).search(self.text, here.end())
            self._skip((end.end() if end else len(self.text)) - self.at)
            return
        found = re.compile(r"\d?[<>]+(&\d|&|\|)?[ \t]*").match(self.text, self.at)
        if found:
            self._skip(found.end() - self.at)
            if not (found.group(1) or "").strip("&").isdigit() and self.at < len(self.text):
                if self.text[self.at] not in "\n;|&()":
                    self._word()

    def _word(self) -> _Raw:
        raw = _Raw(self.line)
        text, plain = self.text, ""
        while self.at < len(text):
            c = text[self.at]
            if text.startswith("\\\n", self.at):
                break
            if c == "(" and not self.in_array and plain.endswith("=") and not raw.pieces and _ASSIGN.fullmatch(plain):
                raw.pieces.append(("", plain))
                self._skip(1)
                raw.array = self._array()
                return raw
            if c in " \t\n;|&()<>":
                break
            if c == "\\":
                plain += text[self.at + 1 : self.at + 2]
                self._skip(2)
            elif c in "'\"":
                if plain:
                    raw.pieces.append(("", plain))
                    plain = ""
                raw.pieces.append((c, self._quoted(c)))
            elif text.startswith(("$(", "${"), self.at) or c == "`":
                plain += self._balanced()
            else:
                plain += c
                self._skip(1)
        if plain:
            raw.pieces.append(("", plain))
        return raw

    def _quoted(self, quote: str) -> str:
        begin = self.at + 1
        end = begin
        while end < len(self.text) and self.text[end] != quote:
            inside = _SUBSTITUTION.match(self.text, end) if quote == '"' else None
            end = inside.end() if inside else end + (2 if quote == '"' and self.text[end] == "\\" else 1)
        inner = self.text[begin:end]
        self._skip(end + 1 - self.at)
        return inner.replace("\\\n", f"{CONTINUED}\n").replace('\\"', '"') if quote == '"' else inner

    def _balanced(self) -> str:
        begin, depth = self.at, 0
        if self.text[self.at] == "`":
            end = self.text.find("`", self.at + 1)
            self._skip((end if end >= 0 else len(self.text)) + 1 - self.at)
            return self.text[begin : self.at]
        end = self.at + 1
        while end < len(self.text):
            depth += self.text[end] in "({"
            depth -= self.text[end] in ")}"
            end += 1
            if depth == 0:
                break
        self._skip(end - self.at)
        return self.text[begin:end]

    def _array(self) -> list[_Raw]:
        """Elements up to the closing bracket; arrays hold no arrays."""
        out, self.in_array = [], True
        for token in self.tokens():
            if token == ")":
                break
            if isinstance(token, _Raw):
                out.append(token)
        self.in_array = False
        return out
