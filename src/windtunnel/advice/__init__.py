"""Which published techniques would help a scenario: each is applied to it, simulated and ranked by what it gains."""

from windtunnel.advice.advice import Advice
from windtunnel.advice.search import advise
from windtunnel.advice.suggestion import Suggestion

__all__ = ["Advice", "Suggestion", "advise"]
