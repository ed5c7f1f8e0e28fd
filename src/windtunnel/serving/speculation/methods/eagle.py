"""EAGLE: a head of one dense layer on the model's hidden states drafts a chain of tokens.

Source: Li et al. 2024 (arXiv 2401.15077), section 4.1; EAGLE-3 (arXiv 2503.01840) joins three hidden states instead.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from windtunnel.errors import ProblemList
from windtunnel.graph.predicted import PREDICTED
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.speculation.base import METHODS, Network, in_format, one_layer
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.speculation import SpeculationSpec


class Eagle:
    """One dense layer of the model's width; embedding and head are the model's."""

    title: ClassVar[str] = "EAGLE"
    source: ClassVar[str] = "arXiv 2401.15077, section 4.1"
    acceptance: ClassVar[tuple[float, ...]] = (0.75, 0.7, 0.7, 0.68, 0.68)
    acceptance_source: ClassVar[str] = "of chains, about: arXiv 2401.15077, section 4.2; assumed"
    scan_s: ClassVar[float] = 0.0

    def network(
        self, spec: SpeculationSpec, model: ModelSpec, cluster: ClusterSpec, shape: Shape, problems: ProblemList
    ) -> Network | None:
        """Cut as the model is."""
        wide = model.intermediate_size or 4 * model.hidden_size
        head = one_layer(
            model, num_experts=0, num_experts_per_tok=0, n_shared_experts=0, intermediate_size=wide, index_topk=0
        )
        cut = in_format(shape, spec.draft_weights, cluster)
        return Network(head, cut, Counter({PREDICTED: 1}), reads_hidden=True, own_ends=False)


METHODS.add("eagle", Eagle())
