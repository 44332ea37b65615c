"""From a graph to C: fusion, physical layout, loops and kernel calls, and the files' frame."""
