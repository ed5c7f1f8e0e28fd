"""Published scaling laws: one file a law in `published/`, with its coefficients, range, uncertainty and refusals.

A law answers questions (`loss`, `optimum`, `tokens` …); which one is asked follows from the quantities that are given:

```python
from windtunnel.laws import LAWS

LAWS.get("chinchilla-refit").predict({"parameters": 7e9, "tokens": 300e9}).values["loss"]
```

`predict` refuses what lies outside the range that the authors state, unless it is asked to extrapolate; then the
interval is widened and the answer marked `extrapolated`. Laws here are closed forms over numbers: what comes from our
own graph or clock is computed by who asks. `learning.laws` looks up loss by algorithm and workers for
`windtunnel learn`; its coefficients are those of the law of the same id here.
"""

from __future__ import annotations

from windtunnel.laws.law import Law
from windtunnel.laws.records import Coefficient, Estimate, Prediction, Quantity, Question, Values
from windtunnel.registry import Registry

__all__ = ["LAWS", "Coefficient", "Estimate", "Law", "Prediction", "Quantity", "Question", "Values"]

LAWS: Registry[Law] = Registry("laws", package="windtunnel.laws.published", noun="law")
