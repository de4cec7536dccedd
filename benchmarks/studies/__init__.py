"""Figures and tables of the papers: `python -m benchmarks.studies.NAME`."""
