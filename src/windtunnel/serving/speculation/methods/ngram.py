"""Prompt lookup: the host finds the last tokens earlier in the sequence and drafts what followed them there."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.errors import ProblemList
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.speculation.base import METHODS, Network
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.speculation import SpeculationSpec


class Ngram:
    """No network: the search costs the host time, each token of the sequence is compared once."""

    title: ClassVar[str] = "n-gram lookup"
    source: ClassVar[str] = "vLLM v1/spec_decode/ngram_proposer.py: one linear search a sequence"
    acceptance: ClassVar[tuple[float, ...]] = (0.3,)
    acceptance_source: ClassVar[str] = "depends on how much answers repeat prompts: assumed, of plain conversation"
    scan_s: ClassVar[float] = 1e-9

    def network(
        self, spec: SpeculationSpec, model: ModelSpec, cluster: ClusterSpec, shape: Shape, problems: ProblemList
    ) -> Network | None:
        """None drafts."""
        return None


METHODS.add("ngram", Ngram())
