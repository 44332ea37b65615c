"""Names of places and files that connections and places of remote calls share."""

IMAGE = ".elf"  # suffix of firmware images
QEMU = "qemu"
