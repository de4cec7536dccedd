"""Metrics of policies: expected values, best responses, exploitability."""
