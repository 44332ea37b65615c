"""C of a network by a plain generator that shares nothing with the compiler but the import."""

from .files import missing, write_reference

__all__ = ["missing", "write_reference"]
