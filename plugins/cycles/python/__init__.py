"""Cycles and energy of a network on a board that is not there yet, by a model of its core.

``program`` builds an image with one run of a network and counts in QEMU how often each block of its
code is executed; ``code`` reads what the instructions are; ``cores`` has what each kind takes;
``parts`` what is known of microcontrollers; ``estimate`` puts it together, layer by layer.
"""
