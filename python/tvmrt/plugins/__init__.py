"""Plug-ins of tvmrt's own source tree: each folder ``plugins/<name>/python`` is installed here.

``tvmrt.plugin`` reads the ``plugin.py`` of each; nothing else is imported before it is used.
"""
