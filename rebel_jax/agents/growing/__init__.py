"""Agents whose searches grow trees, each from what their own last one left."""
