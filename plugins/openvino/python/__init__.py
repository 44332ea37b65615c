"""Regions computed by OpenVINO."""
