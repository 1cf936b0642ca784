"""Intervals, ROC curves and lower bounds on ε."""
