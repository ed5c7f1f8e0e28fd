"""Fits of coefficients and residuals to measured rows, and the errors of groups that are left out."""
