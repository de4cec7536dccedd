"""Configurations of training runs, their presets, and the checks of both."""
