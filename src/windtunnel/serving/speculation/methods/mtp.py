"""Multi-token prediction: the layer that the model was trained with drafts; further tokens run it again.

Source: DeepSeek-V3 (arXiv 2412.19437), section 2.2; one module used for all positions: TensorRT-LLM's "MTP Eagle".
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from windtunnel.errors import ProblemList
from windtunnel.graph.predicted import PREDICTED
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.speculation.base import METHODS, Network, one_layer
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.speculation import SpeculationSpec


class Mtp:
    """One more layer of the model's last kind, behind a projection that joins a token to the hidden state before it."""

    title: ClassVar[str] = "multi-token prediction"
    source: ClassVar[str] = "DeepSeek-V3 (arXiv 2412.19437), section 2.2"
    acceptance: ClassVar[tuple[float, ...]] = (0.87, 0.72, 0.5)
    acceptance_source: ClassVar[str] = (
        "first token: 81 to 92 % on DeepSeek-V3 and R1 (arXiv 2412.19437, section 5.4.3; vLLM pull request 12755; "
        "SGLang pull request 3582); 1.92, 2.58 and 2.82 tokens a step with 1, 2 and 3 drafted on R1 (TensorRT-LLM tech "
        "blog 1)"
    )
    scan_s: ClassVar[float] = 0.0

    def network(
        self, spec: SpeculationSpec, model: ModelSpec, cluster: ClusterSpec, shape: Shape, problems: ProblemList
    ) -> Network | None:
        """Formats and cut are the model's own."""
        return Network(one_layer(model), shape, Counter({PREDICTED: 1}), reads_hidden=True, own_ends=False)


METHODS.add("mtp", Mtp())
