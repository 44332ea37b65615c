"""The processor of this machine. This module imports nothing slow."""

from tvmrt.compiler.processor import flags, machine

__all__ = ["flags", "machine"]
