"""A `torch.nn.Module` that a Python file defines, traced into the operators that it runs.

A name of the file stands for a module class, a module, or a function that returns a module or (module, example inputs).
The file is executed. Modules are built on PyTorch's meta device, so a model of any size needs no memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import Any

from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.files.trust import run_python
from windtunnel.importers.torch_module import TracedGraph, require_torch, trace_module

_INPUT = re.compile(r"(?P<sizes>[1-9]\d{0,14}(?:x[1-9]\d{0,14})*)(?::(?P<dtype>\w+))?")


def trace_file(file: Path, name: str, inputs: Sequence[str] = ()) -> TracedGraph:
    """Execute a Python file, build the module that it names, and trace one forward call.

    Args:
        file: Python file that defines the module.
        name: what to take from it: a module class, a module, or a function without required arguments.
        inputs: Example inputs as `SIZES:DTYPE`, such as `2x4096:int64`; the type is float32 where it is absent. They
            replace the inputs that a function returns with its module.

    Raises:
        BadInput: PyTorch is not installed; the file cannot be run or has no such name; an input is malformed; the
            module cannot run on these inputs.
    """
    torch = require_torch()
    with torch.device("meta"):
        module, own = _built(torch, _named(file, name), f"{file}:{name}")
        return trace_module(module, _examples(torch, inputs) if inputs else own)


def as_dict(graph: TracedGraph) -> dict[str, Any]:
    """A traced module as plain data: totals, then every operator in execution order. Sizes are unsharded."""
    return {
        "num_params": graph.num_params,
        "forward_flop": graph.forward_flop,
        "dense_flop": graph.dense_flop,
        "counted_flop": graph.counted_flop,
        "other_calls": dict(graph.other_calls),
        "operators": [
            {
                "name": op.name,
                "kind": op.kind.name.lower(),
                **{size: value for size in _SIZES if (value := getattr(op, size))},
            }
            for op in graph.operators
        ],
    }


_SIZES = ("m", "n", "k", "groups", "pairs", "heads", "kv_heads", "d_qk", "d_v", "forward_bytes", "params")


def _named(file: Path, name: str) -> Any:
    """What a name of a Python file stands for, after the file has been executed."""
    try:
        module = run_python(file, "FILE", f"windtunnel_imported_{file.stem}")
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{file}: cannot be executed: {type(error).__name__}: {_first_line(error)}") from error
    if not hasattr(module, name):
        known = [other for other in vars(module) if not other.startswith("_")]
        raise BadInput(Problem(str(file), "defines no such name", name, nearest=nearest_name(name, known)))
    return getattr(module, name)


def _built(torch: Any, found: Any, target: str) -> tuple[Any, Sequence[Any]]:
    """The module that a class or function gives, and the example inputs that come with it."""
    if not isinstance(found, torch.nn.Module):
        if not callable(found):
            raise BadInput(Problem(target, "must be a module, its class or a function", type(found).__name__))
        try:
            found = found()
        except Exception as error:
            rule = f"cannot be called without arguments: {type(error).__name__}: {_first_line(error)}"
            raise BadInput(Problem(target, rule)) from error
    if isinstance(found, tuple) and len(found) == 2:
        module, inputs = found
        return module, tuple(inputs) if isinstance(inputs, Iterable) and not torch.is_tensor(inputs) else (inputs,)
    return found, ()


def _examples(torch: Any, inputs: Sequence[str]) -> tuple[Any, ...]:
    """Tensors without data of the sizes and types that `--input` gives."""
    out, problems = [], []
    for text in inputs:
        match = _INPUT.fullmatch(text)
        dtype = getattr(torch, (match["dtype"] if match else "") or "float32", None)
        if match is None or not isinstance(dtype, torch.dtype):
            problems.append(Problem("--input", "must be SIZES:DTYPE, such as 2x4096:int64 or 8x512:bfloat16", text))
            continue
        sizes = [int(size) for size in match["sizes"].split("x")]
        if prod(sizes) >= 2**62:
            problems.append(Problem("--input", "has too many elements", text))
            continue
        out.append(torch.empty(sizes, dtype=dtype))
    if problems:
        raise BadInput(problems)
    return tuple(out)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]
