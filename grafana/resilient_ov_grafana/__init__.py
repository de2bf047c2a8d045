"""Grafana dashboards, Prometheus rules and their surroundings, made from typed code."""
