"""The simulated accelerator: a device in C, found through this package's entry point."""

from pathlib import Path

plugin_path = str(Path(__file__).parent / "libtvmrt_device_tpu.so")
