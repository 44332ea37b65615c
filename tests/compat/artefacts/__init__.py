"""Artefacts in the format of TVM 0.8 to 0.18, made from the description of their formats.

The C files here are written as the generators of those releases wrote: `llvm_*.c` knows no header
and spells every struct out, as an object file of the LLVM generator does; `c_*.c` includes the two
headers that the C generator includes. The macro MINOR is the release, 8 to 18.
"""
