"""The compiler: from a trained network to C sources, a library or an archive.

``pipeline`` runs the stages in order: ``frontend`` (files to graphs), ``transform`` (passes),
``partition`` (regions for devices), ``planner`` (memory), ``codegen`` (C) and ``export`` (files).
Users call ``tvmrt.compile``; custom operators and devices come from ``tvmrt.custom`` and
``tvmrt.devices``. Nothing is imported here, so that each part is loaded when it is used.
"""
