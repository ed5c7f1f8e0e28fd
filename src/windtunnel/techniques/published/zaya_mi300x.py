"""ZAYA1's platform: MI300X with one Pollara port a device, as a pack of device, links and network.

Sizes of products and messages are priced by the device's and the network's own curves, so that a model can be sized to
them. What it costs: watts of a larger board.
"""

from __future__ import annotations

from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import Knob, Technique


def _applies(scenario: Scenario) -> str | None:
    if scenario.training is None:
        return "it acts on training steps"
    own = isinstance(scenario.cluster, ClusterRef) and scenario.cluster.device == "mi300x"
    return "the devices are MI300X already" if own else None


TECHNIQUE = Technique(
    id="zaya-mi300x",
    knobs={"network": Knob("pollara-400g", choices=("pollara-400g", "roce-400g"), doc="link of each port")},
    edits=(("plan", "device"),),
    applies_to=_applies,
    selects={"device": "mi300x", "scale_up": "xgmi4-mi300x", "scale_out": "$network"},
    saves="compute",
)
