/* A library needs a source. */
typedef int tvmrt_nothing;
