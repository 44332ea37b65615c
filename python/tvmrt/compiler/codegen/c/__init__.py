"""C as data: declarations, names, literals, functions, printed last; it knows no operator."""
