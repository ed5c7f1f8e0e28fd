"""Which published techniques would help a scenario: each is applied to it, simulated and ranked by what it gains."""

from windtunnel.advice.search import Advice, advise
from windtunnel.advice.suggestion import Suggestion

__all__ = ["Advice", "Suggestion", "advise"]
