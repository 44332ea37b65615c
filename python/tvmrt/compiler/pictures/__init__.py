"""Pictures of memory plans, and the kinds of operators by which they are coloured."""
