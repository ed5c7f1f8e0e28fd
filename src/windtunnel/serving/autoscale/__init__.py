"""Instances that come and go: decisions, start-up times, and what they cost."""

from windtunnel.serving.autoscale.replicas import Replicas
from windtunnel.serving.autoscale.resize import Elastic
from windtunnel.serving.autoscale.start_up import StartUp, start_up

__all__ = ["Elastic", "Replicas", "StartUp", "start_up"]
