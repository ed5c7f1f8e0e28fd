"""Windtunnel predicts how training and serving run on a cluster: time, memory, and why.

Example:
    >>> import windtunnel as wt
    >>> wt.__version__.count(".")
    2

`wt.simulate_training("scenario.yaml")` returns a typed result; `result.to_frame()` and `result.figure()` show it. Names
are imported on first use, so `import windtunnel` itself costs nothing; `__init__.pyi` gives their types.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

__all__ = [
    "BadInput",
    "GateFailed",
    "Infeasible",
    "Scenario",
    "ServingResult",
    "TrainingResult",
    "WindtunnelError",
    "__version__",
    "advise",
    "ask",
    "compare",
    "explain",
    "explore",
    "fit",
    "import_torch_module",
    "load_scenario",
    "plan",
    "scenario",
    "simulate_serving",
    "simulate_training",
    "sweep",
    "validate",
]

_HOME = {
    "simulate_training": "windtunnel.api",
    "simulate_serving": "windtunnel.api",
    "ask": "windtunnel.api",
    "fit": "windtunnel.api",
    "compare": "windtunnel.api",
    "explain": "windtunnel.api",
    "plan": "windtunnel.api",
    "advise": "windtunnel.api",
    "validate": "windtunnel.api",
    "import_torch_module": "windtunnel.api",
    "scenario": "windtunnel.fluent",
    "explore": "windtunnel.notebook.explore",
    "sweep": "windtunnel.fluent",
    "load_scenario": "windtunnel.scenarios.load",
    "Scenario": "windtunnel.specs.scenario",
    "TrainingResult": "windtunnel.training.results.training_result",
    "ServingResult": "windtunnel.serving.results.serving_result",
    "WindtunnelError": "windtunnel.errors",
    "BadInput": "windtunnel.errors",
    "Infeasible": "windtunnel.errors",
    "GateFailed": "windtunnel.errors",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        from windtunnel.versions import current_name

        if not name.startswith("_") and (now := current_name(__name__, name)) != name:
            return globals().get(now) or __getattr__(now)
        raise AttributeError(f"module 'windtunnel' has no attribute '{name}'")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
