/* A library needs at least one source. */
typedef int tvmrt_empty_unit;
