"""The Philox random number generator, compared with its published test vectors."""

from __future__ import annotations

import ctypes

import kernel_build as kb
import numpy as np


def test_the_generator_is_philox(build_folder):
    """Compare with the known answers of the authors' library Random123 (kat_vectors)."""
    source = """
    #include <tvm/runtime/kernels/op/random.h>
    void words(uint32_t* counter, const uint32_t* key);
    void words(uint32_t* counter, const uint32_t* key) { tvmrt_philox(counter, key[0], key[1]); }
    """
    library = kb.build(build_folder, source, ["-O2"], "gcc")
    known = [
        ("00000000 00000000 00000000 00000000", "00000000 00000000",
         "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
         "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
         "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]  # fmt: skip
    for counter, key, wanted in known:
        words, keys, answer = (
            np.array([int(w, 16) for w in text.split()], np.uint32)
            for text in (counter, key, wanted)
        )
        library.words(words.ctypes.data_as(ctypes.c_void_p), keys.ctypes.data_as(ctypes.c_void_p))
        np.testing.assert_array_equal(words, answer)
