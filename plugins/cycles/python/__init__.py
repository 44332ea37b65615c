"""Cycle and energy estimates for networks on boards, by a model of the processor core.

``program`` builds an image with one run of a network and counts in QEMU how often each basic block
is executed; ``code`` classifies the instructions; ``cores`` has the cycles per kind; ``parts`` has
data of microcontrollers; ``estimate`` combines them, layer by layer.
"""
