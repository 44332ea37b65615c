"""What calls the operators from outside: arguments, the AOT entry, the graph, metadata, hooks."""
