"""The command ``tvmrt device test``; the tests themselves are ``tvmrt.conformance``."""
