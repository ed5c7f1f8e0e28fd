"""Secure Berrut coded computing: decoding from whichever results return."""
