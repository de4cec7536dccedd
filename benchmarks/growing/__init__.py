"""Figures of searches in trees that grow."""
