"""C of a network by a plain generator that shares with the compiler only the import and the
definitions of operators that are pointwise or move elements."""
