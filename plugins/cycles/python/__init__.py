"""Cycle and energy estimates for networks on boards, by a model of the processor core.

``qemu_run`` builds an image with one run of a network and counts how often QEMU executes each basic
block. ``disassembly`` classifies the instructions, ``core_timing`` has the cycles per kind, and
``mcu_parts`` has data of microcontrollers. ``estimate`` combines them, layer by layer.
"""
