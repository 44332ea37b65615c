"""Pictures of memory plans, and the kinds of operators that define their colours."""
