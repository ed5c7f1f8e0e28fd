"""Explanations of a step's time: the time chain, assumptions, ignored settings, hypotheses for a gap."""
