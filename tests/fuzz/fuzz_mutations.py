"""Damage to data and to text: what people, editors and broken downloads do to files, drawn from a seed."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

NUMBERS: list[Any] = [
    *(0, -0.0, 1, -1, 2, 3, 7, 64, 1000, 10**6, 10**9, 2**31, 2**63, 2**70, 10**30, -(2**63)),
    *(0.5, -0.5, 1e-30, 1e30, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf")),
]
TEXTS: list[Any] = [
    *("", " ", "8", "-3", "1e400", "nan", "inf", "auto", "none", "null", "true", "full", "zzz", "a.b", "../..", "/"),
    *("80 GB", "-3 TB/s", "0 GB", "1e400 GB", "12 parsecs", "é" * 300, "\u202e模型", "\x00", "{x}", "%s", "[[", "=1"),
    *("fp8", "h100-sxm-80gb", "meta-llama/Llama-3.1-8B", "vllm", "${X}", "$(id)", "2023-01-01", "NaN"),
]
SHAPES: list[Any] = [
    None,
    True,
    False,
    [],
    {},
    [1],
    [[]],
    [None],
    ["full"],
    {"a": 1},
    {"": None},
    [1, 2, 3, 4],
    {"id": {}},
]
LINES = [
    *("", "\\", "#", "---", "```", "```bash", "EOF", "cat <<EOF", "if [ 1 ]; then", "fi", "export X=", "}", "]", "'"),
    *(
        '"',
        "vllm serve",
        "python -m sglang.launch_server",
        "trtllm-serve",
        "torchrun",
        "deepspeed",
        "\ufeff",
        "\t- x: [1",
    ),
    *(
        "--tensor-parallel-size",
        "--tp 0",
        "-tp=-1",
        "--tp " + "9" * 40,
        "--num-layers $X",
        "--seq-length 1e9",
        "-",
        "--",
    ),
]


def value(draw: Random) -> Any:
    """A scalar, list or mapping that rarely belongs where it is put."""
    return copy.deepcopy(draw.choice(draw.choice([NUMBERS, NUMBERS, TEXTS, SHAPES])))


def places(data: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all entries below, containers included."""
    found: list[tuple[Any, ...]] = []
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, inner in entries:
        found.append((*above, key))
        found += places(inner, (*above, key))
    return found


def _at(data: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        data = data[part]
    return data


def _nested(kind: Any, depth: int) -> Any:
    inner: Any = 1
    for _ in range(depth):
        inner = {"a": inner} if kind is dict else [inner]
    return inner


def _number_beside(old: Any, draw: Random) -> Any:
    """The same kind of value, of another size."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        factors = [old * k for k in (2, 3, 4, 7, 10, 100, 1000, 10**4, 10**6, 10**9, 10**12)]
        return draw.choice([0, 1, 2, -old, old + 1, old // 2, old // 3, *factors, float(old), old + 0.5, str(old)])
    if isinstance(old, float):
        return draw.choice(
            [0.0, -old, old * 1e-6, old * 1e6, old * 1e12, int(min(abs(old), 1e18)) if old == old else 0, str(old)]
        )
    if isinstance(old, str):
        return draw.choice([old + "x", old[:-1], old.upper(), f" {old} ", [old], {old: old}, old.replace("-", "_")])
    return value(draw)


def change(data: Any, draw: Random, *, mild: bool = False) -> str:
    """Damage one entry of nested data in place.

    Args:
        data: a mapping or list.
        draw: what decides.
        mild: only put another number of the same kind in the place of a number, which passes more checks of form.

    Returns:
        What was done, in a few words.
    """
    paths = places(data)
    if mild:
        paths = [p for p in paths if isinstance(_at(data, p), int | float)] or paths
    if not paths:
        return "nothing to change"
    path = draw.choice(paths)
    parent, last = _at(data, path[:-1]), path[-1]
    where = ".".join(map(str, path))
    if mild:
        parent[last] = _number_beside(parent[last], draw)
        return f"{where} = {str(parent[last])[:60]!r}"
    kind = draw.choice(
        ["value", "value", "value", "beside", "beside", "delete", "swap", "wrap", "unwrap", "add", "double", "nest"]
    )
    if kind == "delete":
        del parent[last]
        return f"{where} deleted"
    if kind == "swap":
        other = draw.choice(paths)
        if other[: len(path)] == path or path[: len(other)] == other:
            kind = "value"
        else:
            beside = _at(data, other[:-1])
            first, second = copy.deepcopy(beside[other[-1]]), copy.deepcopy(parent[last])  # some stand in two places
            parent[last], beside[other[-1]] = first, second
            return f"{where} swapped with {'.'.join(map(str, other))}"
    old = parent[last]
    if kind == "add":
        new = draw.choice([*(str(p[-1]) for p in paths), "zzz", "", "0"])
        target = old if isinstance(old, dict) else parent
        if isinstance(target, dict):
            target[new] = value(draw)
            return f"{where} beside {new}"
    if kind == "double" and isinstance(parent, list):
        count = draw.choice([1, 1, 3, 200])
        parent.extend(copy.deepcopy([old] * count))
        return f"{where} {count} times more"
    if kind == "nest":
        parent[last] = _nested(draw.choice([dict, list]), draw.choice([3, 30, 200]))
    elif kind == "wrap":
        parent[last] = [old] if draw.random() < 0.5 else {"a": old}
    elif kind == "unwrap":
        parent[last] = (
            next(iter(old.values() if isinstance(old, dict) else old), None)
            if isinstance(old, dict | list)
            else value(draw)
        )
    elif kind == "beside":
        parent[last] = _number_beside(old, draw)
    else:
        parent[last] = value(draw)
    return f"{where} = {str(parent[last])[:60]!r}"


def spoil_text(text: str, draw: Random) -> tuple[bytes, str]:
    """Damage text as text: characters, lines, ends, encodings.

    Returns:
        The bytes of the file, and what was done.
    """
    lines = text.split("\n")
    at = draw.randrange(len(lines))
    kind = draw.choice(
        [
            "cut",
            "drop",
            "twice",
            "swap",
            "insert",
            "word",
            "word",
            "word",
            "character",
            "bytes",
            "utf16",
            "empty",
            "long",
            "crlf",
            "tabs",
            "bom",
        ]
    )
    if kind == "cut":
        return text[: draw.randrange(len(text) + 1)].encode(), kind
    if kind == "drop":
        del lines[at]
    elif kind == "twice":
        lines.insert(at, lines[at])
    elif kind == "swap":
        other = draw.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == "insert":
        lines.insert(at, draw.choice(LINES))
    elif kind == "word":
        words = lines[at].split(" ")
        words[draw.randrange(len(words))] = draw.choice(
            [str(draw.choice(NUMBERS)), str(draw.choice(TEXTS)), draw.choice(LINES), ""]
        )
        lines[at] = " ".join(words)
    elif kind == "character":
        place = draw.randrange(len(text) + 1)
        return (
            text[:place] + draw.choice("{}[]()\"'\\:,#&*!|>%@`\x00\t\x1b\u2028-=$") + text[place + draw.randint(0, 1) :]
        ).encode(), kind
    elif kind == "bytes":
        raw = bytearray(text.encode())
        for _ in range(draw.randint(1, 4)):
            raw.insert(draw.randrange(len(raw) + 1), draw.randrange(128, 256))
        return bytes(raw), kind
    elif kind == "utf16":
        return text.encode("utf-16"), kind
    elif kind == "empty":
        return draw.choice([b"", b"\n", b"\x00", b" ", b"{}", b"[]", b"null", b"1"]), kind
    elif kind == "long":
        lines[at] = lines[at] * min(draw.choice([50, 3000]), 1_000_000 // (len(lines[at]) + 1) + 1)
    elif kind == "crlf":
        return text.replace("\n", "\r\n").encode(), kind
    elif kind == "tabs":
        return text.replace("  ", "\t").encode(), kind
    else:
        return b"\xef\xbb\xbf" + text.encode(), kind
    return "\n".join(lines).encode("utf-8", "surrogatepass"), f"{kind} at line {at + 1}"


def spoil_table(text: str, draw: Random) -> tuple[bytes, str]:
    """Damage a CSV file cell by cell, or as text."""
    if draw.random() < 0.3:
        return spoil_text(text, draw)
    rows = [line.split(",") for line in text.splitlines()]
    kind = draw.choice(["cells", "cells", "column", "header", "short", "many"])
    if kind == "cells":
        for row in rows[1:]:
            for i in range(len(row)):
                if draw.random() < 0.1:
                    row[i] = str(draw.choice(draw.choice([NUMBERS, TEXTS])))
    elif kind == "column":
        at = draw.randrange(len(rows[0]))
        rows = [row[:at] + row[at + 1 :] for row in rows]
    elif kind == "header":
        rows[0][draw.randrange(len(rows[0]))] = str(draw.choice(TEXTS))
    elif kind == "short":
        rows = [row[: draw.randrange(len(row) + 1)] if draw.random() < 0.3 else row for row in rows]
    else:
        rows += rows[1:] * 2000
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass") + b"\n", kind


def spoil_json(text: str, draw: Random) -> tuple[bytes, str]:
    """Damage JSON, or lines of it, as data."""
    if draw.random() < 0.2:
        return spoil_text(text, draw)
    try:
        data, one = [json.loads(text)], True
    except ValueError:
        data, one = [json.loads(line) for line in text.splitlines()], False
    told = [change(data, draw) for _ in range(draw.choice([1, 1, 1, 2, 3]))]
    lines = [json.dumps(part) for part in data]
    return ("\n".join(lines[:1] if one and lines else lines) + "\n").encode(), "; ".join(told)
