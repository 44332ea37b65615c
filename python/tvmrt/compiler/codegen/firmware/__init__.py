"""The files of a firmware network beside its operators: header, entries, steps, checks, traces."""
