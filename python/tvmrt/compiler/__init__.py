"""The compiler: a trained network to C sources, a library or an archive.

``pipeline`` runs the stages in order: ``frontend`` (files to graphs), ``transform`` (passes),
``partition`` (regions for devices), ``planner`` (memory), ``codegen`` (C) and ``export`` (files).
Users call ``tvmrt.compile``; operators and devices of users come from ``tvmrt.custom`` and
``tvmrt.devices``. Nothing is imported here, so that each part loads when it is used.
"""
