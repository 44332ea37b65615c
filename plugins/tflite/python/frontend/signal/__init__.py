"""Audio custom operators of TensorFlow Lite Micro's signal library and of LiteRT.

The file is untrusted: each operator checks its operands' types and shapes. Integer results are
bit-exact.
"""
