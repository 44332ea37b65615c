"""Command ``tvmrt device test``; the tests themselves are in ``tvmrt.conformance``."""
