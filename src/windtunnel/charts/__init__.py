"""Charts as plain Vega-Lite specifications, drawn as SVG for reports and notebooks."""
