"""Reports: all data of a network, and a self-contained page that shows it.

``collect`` reads data from the compiler, ``timing`` measures, ``graph_layout`` places the graph,
and ``page`` writes and reads files.
"""

# Format of the data; the version increases when a field changes its meaning.
FORMAT, VERSION = "tvmrt-report", 1
