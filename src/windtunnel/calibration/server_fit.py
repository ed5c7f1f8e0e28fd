"""Coefficients of a user's own server from what it measured at one or more loads, through the real simulator.

Logarithms of simulated over measured figures are brought to zero by regularised least squares; each coefficient is held
to the catalogue's value by a Gaussian prior on its logarithm. A coefficient moves only where the loads tell it from
those chosen before it: the one that they know best comes first, and so on, until the next one's standard error would
stay above `INFORMED` of its prior's. The others keep the catalogue's value, each with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.calibration.server_priors import FRONT_END, NETWORK, PRIORS
from windtunnel.calibration.server_results import RATES, MeasuredLoad, simulated
from windtunnel.cost.serving import serving_coefficients
from windtunnel.cost.serving_provenance import flat
from windtunnel.errors import BadInput, Problem, ProblemList
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.serving.deployment import Deployment, priced_pool, with_kv_transfer
from windtunnel.specs.device import DeviceSpec, MeasuredValue, Profile

Progress = Callable[[int, int], None]
SIGMA = {"ttft": 0.10, "steps": 0.03, "rate": 0.03}
"""Standard deviation of a figure around a perfect fit, in logarithms, by kind: replays of recorded requests on servers
whose coefficients are known lie 5 to 7 % (TTFT) and 2.5 to 3.5 % (TPOT, E2E) from their measurements on average
(tests/validation/test_serving_measured.py). Tails (p90 and above) have twice that."""
INFORMED = 0.7
"""A coefficient moves once its standard error is below this share of its prior's."""
_SILENT, _STEP, _ROUNDS = 0.25, 0.05, 3
_LINK = "network."
Z80 = 1.2816
"""Standard deviations on each side of an interval that holds 80 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A coefficient that moved."""

    name: str
    prior: float
    prior_deviation: float
    """Standard deviation of the prior, in logarithms."""
    value: float
    deviation: float
    """Standard deviation afterwards, in logarithms, with what the coefficients that stayed leave open."""

    @property
    def interval(self) -> tuple[float, float]:
        """Low and high end of the interval that holds 80 %."""
        width = math.exp(Z80 * self.deviation)
        return self.value / width, self.value * width


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureErrors:
    """One measured figure of a load next to its simulations, SI units."""

    load: str
    name: str
    measured: float
    before: float
    after: float
    left_out: float | None
    """Simulated with a fit to the other loads; None with one load."""

    def error(self, which: str) -> float:
        """Relative error of `before`, `after` or `left_out`; NaN where there is none."""
        found = getattr(self, which)
        return math.nan if found is None else float(found) / self.measured - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFit:
    """A profile fitted to a server's results, and how well it does."""

    device: DeviceSpec
    fitted: tuple[Fitted, ...]
    confounded: dict[str, str]
    """Coefficient that the loads depend on but do not tell apart → the one that moved in its place."""
    weak: tuple[str, ...]
    """Coefficients that the loads depend on too little to move them."""
    silent: tuple[str, ...]
    """Coefficients that no load depends on."""
    figures: tuple[FigureErrors, ...]
    warnings: tuple[str, ...]

    def mean_error(self, which: str, kind: str = "") -> float:
        """Mean absolute relative error of `before`, `after` or `left_out`, of one kind of figure or of all."""
        errors = [abs(f.error(which)) for f in self.figures if f.name.startswith(kind) or kind_of(f.name) == kind]
        return float(np.mean(errors)) if errors else math.nan


def kind_of(name: str) -> str:
    """`ttft`, `steps` (TPOT, ITL, E2E) or `rate`."""
    return "rate" if name in RATES else "ttft" if name.startswith("ttft") else "steps"


def fit_server(loads: Sequence[MeasuredLoad], source: str, report: Progress | None = None) -> ServerFit:
    """Fit the coefficients that the loads tell apart.

    Args:
        loads: of one engine's release on one device.
        source: what they came from, for the profile.
        report: called with simulations done and expected.

    Raises:
        BadInput: loads of unlike servers, or of which nothing is answered.
    """
    work = _Work(loads, report)
    start = np.zeros(len(work.names))
    before = work.figures(start)
    every = np.ones(len(start), bool)
    slopes = work.slopes(start, before, every)
    slopes /= work.widen(slopes)[:, None]
    chosen, confounded, acting = _told_apart(slopes, work.width, work.names)
    theta, after = start, before
    for _ in range(_ROUNDS if chosen.any() else 0):
        theta, after, gained = _better(work, theta, after, slopes, chosen)
        if not gained:
            break
        slopes[:, chosen] = work.slopes(theta, after, chosen)[:, chosen]
    residual = work.residual(after)
    deviation = _deviations(slopes, residual, work.width, acting)
    fitted = tuple(
        Fitted(
            name=work.names[k],
            prior=work.prior[k],
            prior_deviation=work.width[k],
            value=work.value(k, theta[k]),
            deviation=float(deviation[k]),
        )
        for k in map(int, np.flatnonzero(chosen))
    )
    left_out = _left_out(work, theta, slopes, residual)
    return ServerFit(
        device=work.device_of(fitted, f"{len(loads)} loads of {source}"),
        fitted=fitted,
        confounded=confounded,
        weak=tuple(n for k, n in enumerate(work.names) if acting[k] and not chosen[k] and n not in confounded),
        silent=tuple(work.names[k] for k in np.flatnonzero(~acting)),
        figures=tuple(
            FigureErrors(
                load=loads[i].label,
                name=name,
                measured=loads[i].figures[name],
                before=float(before[r]),
                after=float(after[r]),
                left_out=None if left_out is None else float(left_out[r]),
            )
            for r, (i, name) in enumerate(work.rows)
        ),
        warnings=_warnings(work, residual),
    )


class _Work:
    """Loads under candidate coefficients."""

    def __init__(self, loads: Sequence[MeasuredLoad], report: Progress | None) -> None:
        first = loads[0].deployment
        servings = {(load.deployment.serving.engine, load.deployment.serving.engine_version) for load in loads}
        devices = {load.deployment.pools[0].cluster.device.id for load in loads}
        if len(servings) > 1 or len(devices) > 1:
            raise BadInput(Problem("FILES", "must be of one engine's release on one device"))
        self.loads, self.report = loads, report
        self.device = first.pools[0].cluster.device
        known = flat(
            serving_coefficients(
                first.serving.engine, first.serving.engine_version, self.device, streamed=first.serving.streams
            )
        )
        scale = Profile() if self.device.profile is None else self.device.profile
        hop = scale.network.get("hop_scale")
        known["network.efficiency"] = NetworkCoefficients.for_cluster(first.pools[0].cluster).up.efficiency
        known["network.hop_scale"] = 1.0 if hop is None else hop.value
        free = PRIORS | FRONT_END | {f"network.{name}": prior for name, prior in NETWORK.items()}
        self.names = [name for name in free if known.get(name, 0.0) > 0.0]
        self.prior = [known[name] for name in self.names]
        self.width = np.array([free[name][0] for name in self.names])
        self.most = [max(free[name][1], known[name]) for name in self.names]
        self.rows = [(i, name) for i, load in enumerate(loads) for name in load.figures]
        self.measured = np.array([loads[i].figures[name] for i, name in self.rows])
        self.sigma = np.array([self._sigma(i, name) for i, name in self.rows])
        self.done, self.expected = 0, len(loads) * (len(self.names) + 16)

    def _sigma(self, i: int, name: str) -> float:
        """Figures of one kind and load are one piece of knowledge, however many there are."""
        load = self.loads[i]

        def piece(own: str) -> str:
            return "steps" if load.closed and kind_of(own) == "rate" else kind_of(own)

        same = sum(piece(own) == piece(name) for own in load.figures)
        tail = 2.0 if "_p9" in name else 1.0
        return SIGMA[kind_of(name)] * tail * math.sqrt(same)

    def value(self, k: int, shift: float) -> float:
        """A coefficient moved by a logarithm, none beyond its roof."""
        return min(self.prior[k] * math.exp(shift), self.most[k])

    def device_of(self, fitted: Sequence[Fitted], source: str = "") -> DeviceSpec:
        """The device with these coefficients in its profile."""
        values = {
            f.name: MeasuredValue(
                value=f.value,
                grade="fitted",
                relative_error=round(f.deviation, 4),
                source=f"{source}; prior {f.prior:.4g} ± {f.prior_deviation:.0%}",
            )
            for f in fitted
        }
        known = self.device.profile or Profile()
        conditions: dict[str, Any] = {**known.conditions} | ({"source": source} if source else {})
        network = {n.removeprefix(_LINK): v for n, v in values.items() if n.startswith(_LINK)}
        serving = {n: v for n, v in values.items() if not n.startswith(_LINK)}
        profile = known.model_copy(
            update={
                "serving": {**known.serving, **serving},
                "network": {**known.network, **network},
                "conditions": conditions,
            }
        )
        return self.device.model_copy(update={"profile": profile})

    def one(self, i: int, theta: Floats) -> list[float]:
        """Figures of a load."""
        moved = [
            Fitted(name=n, prior=self.prior[k], prior_deviation=0.0, value=self.value(k, theta[k]), deviation=0.0)
            for k, n in enumerate(self.names)
            if theta[k] != 0.0
        ]
        load = self.loads[i]
        found = simulated(load, on_device(load.deployment, self.device_of(moved)))
        self.done += 1
        if self.report is not None:
            self.report(min(self.done, self.expected), self.expected)
        return list(found.values())

    def figures(self, theta: Floats) -> Floats:
        """Every figure of every load, in the order of `rows`."""
        found = np.array([value for i in range(len(self.loads)) for value in self.one(i, theta)])
        if not np.isfinite(found).all():
            i, name = self.rows[int(np.flatnonzero(~np.isfinite(found))[0])]
            rule = f"cannot be simulated: no request of {self.loads[i].label} has it on the scenario's server"
            raise BadInput(Problem(name, rule))
        return found

    def residual(self, found: Floats) -> Floats:
        """Logarithms of simulated over measured, in standard deviations."""
        return np.asarray(np.log(found / self.measured) / self.sigma)

    def widen(self, slopes: Floats) -> Floats:
        """Widen the deviations of figures that queues amplify, and return by how much.

        Where 1 % slower iterations make a first token 5 % later, what no coefficient describes is amplified as well.
        """
        slower = np.array([1.0 if name.endswith(("_s", "hop_scale", "front_end")) else -1.0 for name in self.names])
        factor = np.maximum(np.abs(slopes @ slower) * self.sigma, 1.0)
        self.sigma = self.sigma * factor
        return np.asarray(factor)

    def slopes(self, theta: Floats, found: Floats, columns: Mask) -> Floats:
        """Derivatives of the residuals by the coefficients' logarithms, towards the side that has room."""
        out = np.zeros((len(self.rows), len(self.names)))
        for k in np.flatnonzero(columns):
            moved = theta.copy()
            moved[k] += _STEP if self.prior[k] * math.exp(theta[k] + _STEP) < self.most[k] else -_STEP
            out[:, k] = np.log(self.figures(moved) / found) / self.sigma / (moved[k] - theta[k])
        return out


def on_device(d: Deployment, device: DeviceSpec) -> Deployment:
    """A deployment whose iterations are priced on another profile of its device."""
    pools = tuple(
        replace(
            priced_pool(
                d.serving,
                p.index,
                p.group,
                p.cluster.model_copy(update={"device": device}),
                p.model,
                p.instance,
                d.techniques,
                int(p.iteration.linear.tokens[-1]),
            ),
            spec=p.spec,
        )
        for p in d.pools
    )
    out = replace(d, pools=pools)
    return with_kv_transfer(out, ProblemList()) if pools[-1].spec.role == "decode" else out


def _told_apart(slopes: Floats, width: Floats, names: Sequence[str]) -> tuple[Mask, dict[str, str], Mask]:
    """Which coefficients the loads tell apart, who moves in the place of those that they do not, and which act."""
    effect = slopes * width
    acting = np.abs(effect).max(axis=0) > _SILENT
    chosen = np.zeros(len(width), bool)
    while True:
        s = effect[:, chosen]
        rest = effect - s @ np.linalg.solve(np.eye(s.shape[1]) + s.T @ s, s.T @ effect)
        known = np.where(acting & ~chosen, (effect * rest).sum(axis=0), 0.0)
        best = int(np.argmax(known))
        if 1.0 / math.sqrt(1.0 + max(known[best], 0.0)) > INFORMED:
            break
        chosen[best] = True
    length = np.linalg.norm(effect, axis=0)
    alone = 1.0 / np.sqrt(1.0 + length**2) <= INFORMED
    confounded = {}
    for k in map(int, np.flatnonzero(acting & ~chosen & alone)):
        alike = [abs(float(effect[:, k] @ effect[:, j])) / (length[k] * length[j]) for j in np.flatnonzero(chosen)]
        confounded[names[k]] = names[int(np.flatnonzero(chosen)[int(np.argmax(alike))])]
    return chosen, confounded, acting


def _minimum(slopes: Floats, residual: Floats, theta: Floats, width: Floats, chosen: Mask) -> Floats:
    """Where the linear model with its priors is least; coefficients that are not chosen are at their priors."""
    a = slopes[:, chosen]
    right = a.T @ (slopes @ theta - residual)
    out = np.zeros(len(theta))
    out[chosen] = np.linalg.solve(a.T @ a + np.diag(1.0 / width[chosen] ** 2), right)
    return out


def _better(work: _Work, theta: Floats, found: Floats, slopes: Floats, chosen: Mask) -> tuple[Floats, Floats, bool]:
    """A step towards the minimum, and whether it gained enough for another."""

    def objective(at: Floats, figures: Floats) -> float:
        return float(np.sum(work.residual(figures) ** 2) + np.sum((at / work.width) ** 2))

    now = objective(theta, found)
    target = _minimum(slopes, work.residual(found), theta, work.width, chosen)
    for share in (1.0, 0.5, 0.2):
        tried = theta + share * (target - theta)
        figures = work.figures(tried)
        value = objective(tried, figures)
        if value < now:
            return tried, figures, now - value > 0.01 * now + 0.01
    return theta, found, False


def _deviations(slopes: Floats, residual: Floats, width: Floats, acting: Mask) -> Floats:
    """Standard deviations of the logarithms, all that act left open, widened by what the fit leaves over."""
    a = np.where(acting, slopes, 0.0)
    used = float(np.trace(np.linalg.solve(a.T @ a + np.diag(1.0 / width**2), a.T @ a)))
    spread = math.sqrt(float(np.sum(residual**2)) / max(len(residual) - used, 1.0))
    a = a / max(spread, 1.0)
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(a.T @ a + np.diag(1.0 / width**2)))))


def _left_out(work: _Work, theta: Floats, slopes: Floats, residual: Floats) -> Floats | None:
    """Each load as a fit to the others predicts it: chosen and solved again at the last derivatives, then simulated."""
    if len(work.loads) < 2:
        return None
    owner = np.array([i for i, _ in work.rows])
    out: list[float] = []
    for i in range(len(work.loads)):
        kept = owner != i
        chosen, _, _ = _told_apart(slopes[kept], work.width, work.names)
        out += work.one(i, _minimum(slopes[kept], residual[kept], theta, work.width, chosen))
    return np.array(out)


def _warnings(work: _Work, residual: Floats) -> tuple[str, ...]:
    out = []
    for (i, name), r, sigma in zip(work.rows, residual, work.sigma, strict=True):
        if abs(r) > 4.0:
            off = np.expm1(r * sigma)
            out.append(
                f"{work.loads[i].label}: {name} is {off:+.0%} off even after the fit: no coefficient explains it; "
                "check that the scenario describes this server and this load"
            )
    if len(work.loads) == 1:
        out.append("1 load: two or more, of unlike concurrency and lengths, tell more apart")
    return tuple(out)
