"""Servers a run can be made against, and what can be done to each."""
