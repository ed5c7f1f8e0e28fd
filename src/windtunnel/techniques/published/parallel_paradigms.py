"""Templates of jobs: message passing, shared memory, offload to a device, and ranks with threads.

Seconds of a step on a grid follow from α-β messages, the memory rate that threads share, the other socket, copies over
the host link and a device's rates (`job_templates`): what a job of each kind makes of more nodes.

Source: the survey compares the three models; the forms are Hockney's and the roofline.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="parallel-paradigms")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
