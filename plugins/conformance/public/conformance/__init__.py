"""Conformance tests for devices; ``tvmrt device test`` runs them."""

from .runner import CHECKS, Finding, run_checks

__all__ = ["CHECKS", "Finding", "run_checks"]
