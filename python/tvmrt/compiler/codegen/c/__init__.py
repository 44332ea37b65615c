"""Printing of C, independent of operators: declarations, names, literals and functions."""
