"""String operators, and n-gram counts of sequences."""
