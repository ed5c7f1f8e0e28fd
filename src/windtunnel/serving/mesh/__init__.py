"""Several models on shared devices and CPUs: deployments that come and go, iterations that take turns."""

from windtunnel.serving.mesh.loop import serve
from windtunnel.serving.mesh.state import Device, Rules

__all__ = ["Device", "Rules", "serve"]
