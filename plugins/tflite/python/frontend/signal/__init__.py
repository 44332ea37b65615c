"""Custom operators of sound: the signal library of TensorFlow Lite Micro, and those of LiteRT.

Each is held against its operands' types and extents, for the file vouches for nothing; integers are
the same to the bit.
"""
