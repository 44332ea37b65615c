"""Firmware files other than operators: header, entry points, steps, checks and traces."""
