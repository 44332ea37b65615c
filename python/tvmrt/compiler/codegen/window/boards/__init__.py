"""Kernels of microcontrollers (``kernels/board/``) and the shapes of their layers."""
