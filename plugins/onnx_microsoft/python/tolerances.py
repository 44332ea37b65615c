"""Errors that ``tvmrt verify`` allows, relative to the largest result."""

STATE_OF_8_BITS = 2.0**-6  # onnxruntime rounds the state at each step; tvmrt keeps it in floats
