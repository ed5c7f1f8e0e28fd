"""Runs the recipe functions of a checkout beside stand-ins for everything that they import, and prints what they set.

It is started as a process of its own, with the folder of a checkout: `python run_functions.py FOLDER`. Nothing of the
frameworks is installed: only the modules named in `OWN` are the checkout's, every other module is a stand-in whose
classes keep what they are given. Standard output is one JSON object, recipe's name → {module, settings}.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import itertools
import json
import pkgutil
import re
import sys
import types
from pathlib import Path
from typing import Any

OWN = (
    "megatron.bridge.recipes",
    "megatron.bridge.perf_recipes",
    "megatron.bridge.training.mixed_precision",
    "configs",
    "utils",
)
STANDARD = set(sys.stdlib_module_names)
DEFAULTS = {
    # megatron/core/distributed/distributed_data_parallel_config.py
    "DistributedDataParallelConfig": {"overlap_grad_reduce": False, "overlap_param_gather": False},
}
CONFIG_NAME = re.compile(r"^(?!_)\w*_config(_\w+)?$|^(?!_)\w+_config$")
WORKLOAD = re.compile(
    r"^(?P<model>\w+?)(?:_(?P<task>PRETRAIN|SFT|LORA))?(?:_CONFIG)?_(?P<gpu>H100|B200|B300|GB200|GB300|R100|VR200)"
    r"_(?P<dtype>BF16|FP8_CS|FP8_MX|FP8_SC|FP8_DS|NVFP4)(?P<base>_BASE_CONFIG|_CONFIG)?(?:_(?P<variant>V\d|LARGE_SCALE))?$"
)


class Missing:
    """The value of a field that nothing set: false, empty, and itself whatever is done with it."""

    def __bool__(self) -> bool:
        return False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calling it gives it."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self) -> Any:
        return iter(())

    def __deepcopy__(self, memo: Any) -> Missing:
        return self

    def __len__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def __int__(self) -> int:
        return 0

    def _false(self, other: Any) -> bool:
        return False

    __lt__ = __gt__ = __le__ = __ge__ = _false

    def _itself(self, other: Any) -> Missing:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = __truediv__ = _itself
    __rtruediv__ = __mod__ = __getitem__ = _itself


MISSING = Missing()


class Standin(type):
    """The kind of a stand-in's classes: attributes of a class, and what stands in brackets behind it, are names."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(f"{cls.__name__}.{name}")

    def __getitem__(cls, key: Any) -> Any:
        return cls


class Record(metaclass=Standin):
    """An object of a stand-in's class: it keeps what it is given."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.__dict__.update(next((d for n, d in DEFAULTS.items() if n == type(self).__name__), {}))
        if args:
            self.__dict__["_args"] = args
        self.__dict__.update(kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MISSING


class Name:
    """A function or a constant of a stand-in: called, it gives a record; as a decorator, what it decorates."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What a decorator decorates, else a record."""
        if len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
            return args[0]
        return Record(_called=self.path, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(f"{self.path}.{name}")

    def __getitem__(self, key: Any) -> Any:
        return self

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__


class Bridge:
    """Stand-in of the class that turns a model of the hub into a provider: it keeps the model's name."""

    @staticmethod
    def from_hf_pretrained(name: Any, *args: Any, **kwargs: Any) -> Bridge:
        """A bridge of a model."""
        bridge = Bridge()
        bridge.__dict__["hub"] = name
        return bridge

    from_hf_config = from_hf_pretrained

    def to_megatron_provider(self, *args: Any, **kwargs: Any) -> Record:
        """The provider, which fields are set on."""
        return Record(_hub=self.__dict__["hub"])

    get_model_config = to_megatron_provider


def flex(model_config: Any, moe_flex_dispatcher_backend: Any = None) -> None:
    """`apply_flex_dispatcher_backend`: DeepEP and HybridEP stand behind the dispatcher `flex`."""
    model, backend = model_config, moe_flex_dispatcher_backend
    if backend in ("deepep", "hybridep"):
        model.moe_token_dispatcher_type = "flex"
        model.moe_flex_dispatcher_backend = backend
        model.moe_shared_expert_overlap = False


class Standing(types.ModuleType):
    """A module that is not the checkout's."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "AutoBridge":
            return Bridge
        if name == "apply_flex_dispatcher_backend":
            return flex
        if (name[:1].isupper() and not name.isupper()) or name in ("ModelConfig",):
            made = type(name, (Record,), {"__module__": self.__name__})
            setattr(self, name, made)
            return made
        return Name(f"{self.__name__}.{name}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the checkout's own modules, and a stand-in for every other one."""

    def __init__(self, folder: Path) -> None:
        self.roots = [folder / "src", folder / "scripts/performance"]

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """A module of the checkout or a stand-in."""
        if name.split(".", maxsplit=1)[0] in STANDARD:
            return None
        if any(name == own or name.startswith(f"{own}.") for own in OWN):
            for root in self.roots:
                place = root / name.replace(".", "/")
                if place.is_dir():
                    init = place / "__init__.py"
                    if init.is_file():
                        return importlib.util.spec_from_file_location(
                            name, init, submodule_search_locations=[str(place)]
                        )
                    return importlib.machinery.ModuleSpec(name, self, is_package=True)
                if place.with_suffix(".py").is_file():
                    return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))
            if name.startswith(("configs", "utils")):
                return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        """A stand-in."""
        module = Standing(spec.name)
        module.__path__ = []
        for root in self.roots:
            place = root / spec.name.replace(".", "/")
            if place.is_dir() and any(spec.name.startswith(own) for own in OWN):
                module.__path__ = [str(place)]
        return module

    def exec_module(self, module: Any) -> None:
        """Nothing is run in a stand-in."""


def plain(value: Any) -> Any:
    """A setting as JSON; `MISSING` where it is no plain value."""
    if isinstance(value, Name):
        return value.path.rsplit(".", 1)[-1]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        parts = [plain(part) for part in value]
        return MISSING if MISSING in parts else parts
    if isinstance(value, Record) and "_called" in value.__dict__:
        return value.__dict__["_called"].rsplit(".", 1)[-1] + "()"
    return MISSING


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted name → setting of a configuration."""
    out: dict[str, Any] = {}
    fields = dict(value) if isinstance(value, dict) else dict(vars(value))
    for name, inner in fields.items():
        path = f"{prefix}{name}"
        if isinstance(inner, Record | dict) or dataclasses.is_dataclass(inner):
            if not isinstance(inner, dict):
                out[f"{path}.(class)"] = type(inner).__name__
            out |= flat(inner, f"{path}.")
        elif (simple := plain(inner)) is not MISSING:
            out[path] = simple
    return out


def called(function: Any, **kwargs: Any) -> dict[str, Any] | str:
    """What a recipe sets, or why it could not be run."""
    try:
        made = function(**kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return flat(made) if isinstance(made, Record) else "gives no configuration"


def modules(package: str) -> list[types.ModuleType]:
    """A package's modules, as many as can be imported."""
    found = []
    try:
        root = importlib.import_module(package)
    except Exception as error:
        print(f"{package}: {type(error).__name__}: {error}", file=sys.stderr)
        return []
    for info in pkgutil.walk_packages(root.__path__, f"{package}.", onerror=lambda name: None):
        try:
            found.append(importlib.import_module(info.name))
        except Exception as error:
            print(f"{info.name}: {type(error).__name__}: {error}", file=sys.stderr)
    return found


def functions() -> dict[str, Any]:
    """Recipes that are functions without arguments that must be given."""
    found: dict[str, Any] = {}
    for package in ("megatron.bridge.recipes", "megatron.bridge.perf_recipes"):  # the launcher prefers the latter
        for module in modules(package):
            for name, function in vars(module).items():
                if not (CONFIG_NAME.match(name) and inspect.isfunction(function)):
                    continue
                if not function.__module__.startswith(package) or name.startswith(("set_", "get_", "default_")):
                    continue
                parameters = inspect.signature(function).parameters.values()
                if any(p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters):
                    continue
                if name in found and name != function.__name__:
                    continue
                found[name] = {
                    "module": function.__module__,
                    "function": function.__name__,
                    "settings": called(function),
                }
    return found


def workloads() -> dict[str, Any]:
    """Recipes that a launcher makes of a model, a device and a precision (`scripts/performance/configs`)."""
    found: dict[str, Any] = {}
    for module in modules("configs"):
        for name, workload in vars(module).items():
            match = WORKLOAD.match(name)
            if match is None or not hasattr(workload, "num_gpus"):
                continue
            part = {key: (text or "").lower() for key, text in match.groupdict().items()}
            task = part["task"] or "pretrain"
            family = [m for n, m in sys.modules.items() if n.startswith("configs.")]
            variant, precision = part["variant"] or "v1", part["dtype"]
            names = [f"{part['model']}_{task}_config_{part['gpu']}", f"{part['model']}_{part['gpu']}_config"]
            maker = next((getattr(m, n) for n, m in itertools.product(names, family) if n in vars(m)), None)
            if maker is None:
                continue
            wanted = inspect.signature(maker).parameters
            given = {"precision": precision, "config_variant": variant}
            if "fp8_recipe" in wanted:
                given |= {"precision": precision.split("_")[0], "fp8_recipe": [*precision.split("_"), "cs"][1]}
            result = called(maker, **{key: value for key, value in given.items() if key in wanted})
            own = dict(vars(workload))
            short = precision.replace("_", "")
            full = f"{part['model']}_{task.replace('lora', 'peft')}_{own['num_gpus']}gpu_{part['gpu']}_{short}"
            found[f"{full}_{variant}_config" if part["variant"] else f"{full}_config"] = {
                "module": maker.__module__,
                "function": maker.__name__,
                "variant": part["variant"],
                "settings": result,
                "devices": own["num_gpus"],
            }
    return found


_FIELDS, _REPLACE = dataclasses.fields, dataclasses.replace


def fields(of: Any) -> Any:
    """`dataclasses.fields`, which for a stand-in has none."""
    return _FIELDS(of) if dataclasses.is_dataclass(of) else ()


def replaced(of: Any, /, **changes: Any) -> Any:
    """`dataclasses.replace`, for records too."""
    if dataclasses.is_dataclass(of):
        return _REPLACE(of, **changes)  # type: ignore[type-var]
    made = copy.copy(of)
    vars(made).update(changes)
    return made


if __name__ == "__main__":
    vars(dataclasses).update(fields=fields, replace=replaced)
    checkout = Path(sys.argv[1])
    sys.meta_path.insert(0, Finder(checkout))
    sys.dont_write_bytecode = True
    json.dump(functions() | workloads(), sys.stdout)
