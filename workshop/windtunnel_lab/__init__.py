"""The workshop of Windtunnel: papers re-run, coefficients fitted, accuracy pages, models that one paper alone uses."""
