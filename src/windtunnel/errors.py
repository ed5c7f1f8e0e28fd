"""What can go wrong, and the exit code that a command returns for it.

```
WindtunnelError            1   our own bug, or anything not below
├── BadInput               2   the user's files or options; carries every Problem found
├── Infeasible             3   valid input without an answer; carries the nearest miss
└── GateFailed             4   a measured figure is outside the limit that was asked for
```

A command prints `str(error)` and exits with `error.exit_code`; 2, 3 and 4 never show a traceback.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

MAX_SHOWN_VALUE = 60
"""Characters of an offending value that a message repeats."""
MOST_SHOWN_PROBLEMS = 20
"""Problems that a message lists; of the rest it gives the number."""
_FEW_MORE = 5
"""Problems beyond these that are listed too, instead of their number: what counts its own rest adds a line or two."""


class _Unset:
    """Marks a problem that concerns a field as a whole, not its value."""

    def __repr__(self) -> str:
        return "<unset>"


UNSET = _Unset()


class SourceLines(Protocol):
    """Where fields were written; `scenarios.fields.SourceMap` is one."""

    def where(self, field: str) -> tuple[str | None, int | None]:
        """File and line (1-based) of a dotted field path, or of its nearest written parent."""
        ...


def nearest_name(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The known name closest to a misspelt one, ignoring case, or None when nothing is close.

    A name of up to three letters has to differ in less than one of them: two unlike short words always share letters.
    """
    by_folded = {k.casefold(): k for k in known}
    if len(name) <= 3:
        swapped = [k for folded, k in by_folded.items() if sorted(folded) == sorted(name.casefold())]
        if swapped:
            return swapped[0]
        cutoff = max(cutoff, 0.75)
    close = difflib.get_close_matches(name.casefold(), list(by_folded), n=1, cutoff=cutoff)
    if close:
        return by_folded[close[0]]
    longer = [k for k in by_folded if len(name) > 2 and k.startswith(name.casefold())]
    return by_folded[min(longer, key=len)] if longer else None


def printable(text: str) -> str:
    """A text as a terminal may have it: what controls one, or turns the direction of writing, becomes an escape."""
    if text.isprintable():
        return text
    plain = (c if c.isprintable() or c == "\n" else c.encode("unicode_escape", "backslashreplace") for c in text)
    return "".join(c if isinstance(c, str) else c.decode() for c in plain)


def comment(text: str) -> str:
    """A text as a comment of YAML or a script, which no name in it can leave."""
    return f"# {printable(' '.join(text.split()))}".rstrip()


def first_of(problems: Sequence[Problem]) -> tuple[Sequence[Problem], int]:
    """The problems that a message lists, and the number of the rest."""
    most = MOST_SHOWN_PROBLEMS if len(problems) > MOST_SHOWN_PROBLEMS + _FEW_MORE else len(problems)
    return problems[:most], len(problems) - most


def shown(value: Any, most: int = MAX_SHOWN_VALUE) -> str:
    """A value as a user would have written it, on one line and of bounded length, without halves of surrogate pairs."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        kept = not isinstance(value, dict | list | tuple | int)  # an integer may be too long to be written
        text = repr(value) if kept else f"a {type(value).__name__}"
    text = " ".join(text.split()) if isinstance(value, str) and text.strip() else text
    if isinstance(value, str) and not text.strip():
        text = repr(value)
    text = text if len(text) <= most else text[: most - 1] + "…"
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to put right.

    `str()` gives `<path.to.field> = <value>: <rule>; did you mean '<nearest>'? (file:line)`.
    """

    field: str
    rule: str
    value: Any = UNSET
    nearest: str | None = None
    file: str | None = None
    line: int | None = None
    """1-based."""

    def __str__(self) -> str:
        subject = self.field
        if not isinstance(self.value, _Unset):
            subject = f"{subject} = {shown(self.value)}" if subject else shown(self.value)
        text = f"{subject}: {self.rule}" if subject else self.rule
        if self.nearest is not None:
            text += f"; did you mean '{self.nearest}'?"
        if self.file is not None:
            text += f" ({self.file}:{self.line})" if self.line is not None else f" ({self.file})"
        return printable(text)

    def under(self, prefix: str) -> Problem:
        """The same problem of a field below `prefix`."""
        return replace(self, field=".".join(part for part in (prefix, self.field) if part))

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: field, value (absent when it is about the field itself), rule, nearest, file, line."""
        record: dict[str, Any] = {"field": self.field}
        if not isinstance(self.value, _Unset):
            record["value"] = self.value
        return record | {"rule": self.rule, "nearest": self.nearest, "file": self.file, "line": self.line}


class WindtunnelError(Exception):
    """Root of everything that this package raises on purpose."""

    exit_code: ClassVar[int] = 1


class BadInput(WindtunnelError):
    """Something that the user wrote cannot be used. Lists every problem, one line each."""

    exit_code: ClassVar[int] = 2

    problems: tuple[Problem, ...]

    def __init__(self, problems: str | Problem | Iterable[Problem]) -> None:
        if isinstance(problems, str):
            self.problems = tuple(Problem(field="", rule=line) for line in problems.splitlines())
        elif isinstance(problems, Problem):
            self.problems = (problems,)
        else:
            self.problems = tuple(problems)
        first, more = first_of(self.problems)
        super().__init__("\n".join([*map(str, first), *([f"and {more:,} more problems"] if more else [])]))

    def __reduce__(self) -> tuple[type[BadInput], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)

    def located(self, source: SourceLines, prefix: str = "") -> BadInput:
        """These problems with file and line filled in where they lack them.

        Args:
            source: knows where each field was written.
            prefix: path that the problems' fields are relative to ("plan" for a field "tp").
        """
        return type(self)(_located(problem, source, prefix) for problem in self.problems)


class Infeasible(WindtunnelError):
    """The input is fine but no answer meets it. `nearest_miss` says what came closest and by how much it failed."""

    exit_code: ClassVar[int] = 3
    looked_at: int | None = None
    """How many plans a search had, none of which met the input."""

    def __init__(self, message: str, nearest_miss: str | None = None) -> None:
        self.message = message
        self.nearest_miss = nearest_miss
        super().__init__(message if nearest_miss is None else f"{message}; nearest miss: {nearest_miss}")

    def __reduce__(self) -> tuple[type[Infeasible], tuple[str, str | None]]:
        return type(self), (self.message, self.nearest_miss)


class GateFailed(WindtunnelError):
    """A figure is outside the limit given by `--gate` or by a paper's claim."""

    exit_code: ClassVar[int] = 4


def _located(problem: Problem, source: SourceLines, prefix: str) -> Problem:
    problem = problem.under(prefix)
    if problem.file is not None:
        return problem
    file, line = source.where(problem.field)
    return replace(problem, file=file, line=line)


class ProblemList:
    """Collects problems so that all of them are reported at once.

    Example:
        >>> problems = ProblemList(prefix="plan")
        >>> problems.add("tp", 3, "must divide num_attention_heads 64", nearest="4")
        >>> problems.raise_if_any()
        Traceback (most recent call last):
        windtunnel.errors.BadInput: plan.tp = 3: must divide num_attention_heads 64; did you mean '4'?
    """

    def __init__(self, source: SourceLines | None = None, prefix: str = "") -> None:
        self._source = source
        self._prefix = prefix
        self._problems: list[Problem] = []

    def add(self, field: str, value: Any, rule: str, *, nearest: str | None = None) -> None:
        """Note that `field` (relative to the prefix) has a value that breaks `rule`. Pass `UNSET` for no value."""
        problem = Problem(field=field, rule=rule, value=value, nearest=nearest)
        if self._source is not None:
            problem = _located(problem, self._source, self._prefix)
        elif self._prefix:
            problem = problem.under(self._prefix)
        self._problems.append(problem)

    def extend(self, problems: Iterable[Problem]) -> None:
        """Take over problems whose fields are full paths; file and line are filled in where they lack them."""
        for problem in problems:
            self._problems.append(_located(problem, self._source, "") if self._source is not None else problem)

    def below(self, field: str) -> _Below:
        """A block whose `BadInput` is listed below `field` and ends the block, so that checking goes on after it."""
        return _Below(self, field)

    def raise_if_any(self) -> None:
        """Raise one `BadInput` with everything collected, or return when there is nothing."""
        if self._problems:
            raise BadInput(self._problems)

    def __bool__(self) -> bool:
        return bool(self._problems)

    def __len__(self) -> int:
        return len(self._problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._problems)


class _Below:
    """The block of `ProblemList.below`."""

    def __init__(self, problems: ProblemList, field: str) -> None:
        self._problems, self._field = problems, field

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, BadInput):
            return False
        for problem in error.problems:
            if problem.file:  # it knows its own file (an imported config.json)
                self._problems.extend([problem])
                continue
            section = self._field.partition(".")[0]  # a problem that names its section has its whole path already
            inside = problem.field in (self._field, "") or problem.field.startswith(f"{section}.")
            name = problem.field or self._field if inside else f"{self._field}.{problem.field}"
            self._problems.add(name, problem.value, problem.rule, nearest=problem.nearest)
        return True


def attempt(field: str, run: Callable[[], Any], problems: ProblemList) -> Any:
    """The result of `run`; None where it raises `BadInput`, whose problems are then listed below `field`."""
    with problems.below(field):
        return run()
    return None
