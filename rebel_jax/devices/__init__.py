"""Devices, processes and caches of compiled programs."""
