"""Reports: all that is known of a network as data, and as one page that needs nothing else.

``collect`` asks the compiler, ``timing`` the machine, ``layout`` places the graph, ``page`` writes
and reads files.
"""

# Of the data; the version grows when a field changes its meaning.
FORMAT, VERSION = "tvmrt-report", 1
