"""Code generation: fusion, memory layout, loops and kernel calls, and the text of the C files."""
