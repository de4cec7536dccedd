"""Compilation of programs for a CPU, and work spread over its cores."""
