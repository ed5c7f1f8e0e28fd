"""Several models on shared devices and CPUs: deployments that come and go, iterations that take turns."""

from windtunnel.serving.multi_model.loop import serve
from windtunnel.serving.multi_model.state import Device, Rules

__all__ = ["Device", "Rules", "serve"]
