"""`windtunnel fit`: does it fit in memory, and what would."""

from __future__ import annotations

import typer

from windtunnel.cli.options import AsJson, Overrides, Scenario, examples
from windtunnel.cli.output import draw, listener, print_json
from windtunnel.cli.sources import scenario_source


def fit(scenario: Scenario, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Say whether the plan fits, and what would.

    Names the largest tensors, the largest micro-batch that fits, and the fewest devices.
    """
    from windtunnel.commands.fit import run

    with listener("fitting") as told:
        result = run(scenario_source(scenario), tuple(overrides or ()), listener=told)
    if as_json:
        print_json(result.to_dict())
    else:
        from windtunnel.views.fit import view

        draw(view(result))
    if not result.fits and result.largest_mbs is None and result.fewest_devices is None:
        from windtunnel.errors import Infeasible
        from windtunnel.units import GiB

        nearest = f"the scenario's own plan needs {result.over_bytes / GiB:.1f} GiB more than a device has"
        if result.changes:
            nearest = "; ".join(f"{', '.join(x.settings)} fits on {x.devices} devices" for x in result.changes)
        raise Infeasible("no micro-batch and no number of devices makes the scenario's own plan fit", nearest)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("fit my.yaml", "fit my.yaml --set plan.recompute.policy=full --json"))(fit)
