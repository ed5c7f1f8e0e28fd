"""Questions in a person's words: read by a grammar and the catalogue, found a plan for, answered in a few lines.

`tokens.py` cuts words, `grammar.yaml` holds the phrases and `patterns.py` matches them, `amounts.py` reads numbers with
units, `names.py` models and devices; `reading.py` puts the fields together and refuses words that it did not read;
`to_scenario.py` makes a scenario of them, `ask.py` runs it and `answer.py` says what came out. There is no language
model and no network in it.
"""
