"""A smaller model drafts, token by token.

Source: Leviathan et al. 2023 (arXiv 2211.17192); Chen et al. 2023 (arXiv 2302.01318).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

from windtunnel import catalog
from windtunnel.errors import BadInput, ProblemList
from windtunnel.serving.iteration.instance_shape import Shape, shape_of
from windtunnel.serving.speculation.base import METHODS, WHERE, Network
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingPlan, ServingPrecision
from windtunnel.specs.speculation import SpeculationSpec


class DraftModel:
    """A model of its own, with its own cache; each rank of attention data parallelism has a copy."""

    title: ClassVar[str] = "draft model"
    source: ClassVar[str] = "arXiv 2211.17192"
    acceptance: ClassVar[tuple[float, ...]] = (0.7,)
    acceptance_source: ClassVar[str] = "middle of 0.5 to 0.9 between models of one family (arXiv 2211.17192, table 3)"
    scan_s: ClassVar[float] = 0.0

    def network(
        self, spec: SpeculationSpec, model: ModelSpec, cluster: ClusterSpec, shape: Shape, problems: ProblemList
    ) -> Network | None:
        """Cut by `draft_tp`, next to the model on the same devices; with order mirror on devices of its own."""
        try:
            small = catalog.model(spec.draft or "") if not isinstance(spec.draft, ModelSpec) else spec.draft
        except BadInput as error:
            for problem in error.problems:
                problems.add(f"{WHERE}.draft", problem.value, problem.rule, nearest=problem.nearest)
            return None
        apart = spec.order == "mirror"
        tp = spec.draft_tp or (1 if apart else shape.tp)
        if tp > shape.tp and not apart:
            problems.add(f"{WHERE}.draft_tp", tp, f"must not exceed tp {shape.tp} of the instance")
            return None
        precision = ServingPrecision(weights=spec.draft_weights)
        cut = shape_of(small, cluster, ServingPlan(tp=tp), precision, WHERE, problems)
        cut = replace(cut, dp=1 if apart else shape.dp, cache_bytes=shape.cache_bytes)
        return Network(small, cut, Counter(small.layer_kinds()), reads_hidden=False, own_ends=True)


METHODS.add("draft", DraftModel())
