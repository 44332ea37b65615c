"""Constants shared by the connections of the rpc plug-in."""

IMAGE = ".elf"  # suffix of firmware images
QEMU = "qemu"
