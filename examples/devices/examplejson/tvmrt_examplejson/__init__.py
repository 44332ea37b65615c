"""ExampleJSON: a graph format with its own runtime, which is loaded with this package."""

from pathlib import Path

from tvmrt import load_device_plugin

load_device_plugin(str(Path(__file__).parent / "libtvmrt_device_examplejson.so"))
