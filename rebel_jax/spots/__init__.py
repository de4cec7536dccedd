"""Spots of hold'em: read from what players write, solved to a target, looked at and kept."""
