"""Every public function of `windtunnel.cost` says where its form comes from and where it was checked."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import FunctionType

import pytest

import windtunnel.cost
from windtunnel.cost.coefficients import Coefficients
from windtunnel.graph import Style

# Functions that look a number up or return one of their arguments: there is no form to source.
LOOKUPS = {
    "coefficients.coefficients",
    "framework_defaults.behaviour",
    "framework_defaults.behaviour_of",
    "framework_defaults.dated_defaults",
    "quantised_base.multiplied_as_stored",
    "sites.holds_at",
    "sites.site_of",
    "sites.fabric_of",
    "sites.where_of",
    "sites.applied_sections",
    "coefficient_files.fit_of",
    "coefficient_files.levels_of",
    "coefficients.grade_of",
    "coefficients.entry_of",
    "coefficients.with_entry",
    "sites.held",
    "clock.idle_w",
    "coefficient_files.coefficient_layers",
    "coefficient_files.values",
    "provenance.provenance",
    "provenance.weakest",
    "coefficients.resolve",
    "coefficients.profile_names",
    "coefficients.with_profile",
    "pooled.keys",
}


def _functions() -> list[tuple[str, FunctionType]]:
    found = []
    for module_info in iter_modules(windtunnel.cost.__path__):
        module = import_module(f"windtunnel.cost.{module_info.name}")
        for name, item in vars(module).items():
            if inspect.isfunction(item) and not name.startswith("_") and item.__module__ == module.__name__:
                found.append((f"{module_info.name}.{name}", item))
    return found


def test_there_are_cost_functions_to_check() -> None:
    assert {"gemm.gemm_time_s", "attention.attention_time_s", "memory_bound.pointwise_time_s"} <= {
        name for name, _ in _functions()
    }


@pytest.mark.parametrize("name", [name for name, _ in _functions() if name not in LOOKUPS])
def test_source_and_range(name: str) -> None:
    doc = inspect.getdoc(dict(_functions())[name]) or ""
    missing = [word for word in ("Source:", "Valid for:") if not doc.partition(word)[2].strip()]
    assert not missing, f"windtunnel.cost.{name} lacks {' and '.join(missing)} in its docstring"


def test_lookups_still_exist() -> None:
    assert {name for name, _ in _functions()} >= LOOKUPS


@pytest.mark.parametrize("folder", ["cost", "network"])
def test_module_constants_are_explained(folder: str) -> None:
    """An upper-case number of a cost module stands beside a comment or a string that explains it."""
    bare = []
    for path in sorted((Path(windtunnel.__file__).parent / folder).glob("*.py")):
        source = path.read_text()
        lines = source.splitlines()
        body = ast.parse(source).body
        for node, following in zip(body, [*body[1:], None], strict=True):
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
                continue
            name = node.targets[0].id
            number = isinstance(node.value, ast.Constant) and isinstance(node.value.value, float)
            if not number or name.startswith("_") or not name.isupper():
                continue
            explained = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            above = lines[node.lineno - 2].lstrip().startswith("#") if node.lineno > 1 else False
            module_doc = name.rpartition("_")[0] != "" and name.endswith("_J_PER_BYTE")  # sourced in clock's docstring
            if not (explained or above or "#" in lines[node.lineno - 1] or module_doc):
                bare.append(f"{path.name}: {name}")
    assert not bare, f"constants without a word on where they come from: {', '.join(bare)}"


def test_every_coefficient_and_style_is_in_the_cost_model() -> None:
    text = (Path(__file__).parents[3] / "docs/internals/cost-model.md").read_text()
    names = [f.name for f in fields(Coefficients) if f.name not in ("grades", "basis")]
    names += [f.name for f in fields(Style)]
    missing = [name for name in names if f"`{name}" not in text]
    assert not missing, f"docs/internals/cost-model.md does not mention {', '.join(missing)}"
