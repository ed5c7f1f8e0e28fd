"""What a command's result shows: one file a command turns a result into a `View`, which every writer draws.

How to write one: `views/<command>.py` has a function `view(result, …) -> View` and draws nothing itself. It puts every
number into words once (`windtunnel.quantities`), and says what a thing is rather than how it looks: tiles for the
figures that a reader wants first, facts for the rest, sections of tables, lines and charts, warnings, assumptions,
sources. The terminal, the HTML report and the studio then show the same sentences; what only pages have room for is a
section with `pages_only`. Charts stand in `views/charts_<command>.py` and are given to a `Drawing` as a function, so
that the terminal never builds them. `views/cluster.py` is the worked example.
"""
