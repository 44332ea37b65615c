"""Evidence about compiled networks: bounds, a reference in C, and what reviewers ask for."""
