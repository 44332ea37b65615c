"""A synthesised voice: pulses at a pitch through four resonators that glide from vowel to vowel."""

import wave
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

RATE = 16000  # samples a second
BLOCK = 80  # samples with the same resonators: 5 ms
# The first three formants in Hz, averages of men by Peterson and Barney (1952)
FORMANTS = {
    "a": (730, 1090, 2440), "e": (530, 1840, 2480), "i": (270, 2290, 3010),
    "o": (570, 840, 2410), "u": (300, 870, 2240),
}  # fmt: skip


def speak(vowels: str, seconds: float, pitch: float = 120.0, syllables: int = 1) -> np.ndarray:
    """Return ``seconds`` of the vowels, of equal length, at ``pitch`` Hz: float32, peak 0.5."""
    blocks = int(seconds * RATE) // BLOCK
    time = np.arange(blocks * BLOCK) / RATE
    phase = np.cumsum(pitch * (1 + 0.12 * np.sin(2 * np.pi * 2.5 * time))) / RATE
    sound = np.diff(np.floor(phase), prepend=0.0)
    places = np.linspace(0, len(vowels) - 1, blocks)
    for formant in range(4):
        known = [(*FORMANTS[vowel], 3500)[formant] * (pitch / 120) ** 0.25 for vowel in vowels]
        state, radius = np.zeros(2), np.exp(-np.pi * 80 / RATE)
        for index, hertz in enumerate(np.interp(places, range(len(vowels)), known)):
            part = slice(index * BLOCK, (index + 1) * BLOCK)
            feedback = [1, -2 * radius * np.cos(2 * np.pi * hertz / RATE), radius**2]
            sound[part], state = lfilter([1 - radius], feedback, sound[part], zi=state)
    sound *= np.abs(np.sin(np.pi * syllables * time / seconds))
    return (sound * (0.5 / np.abs(sound).max())).astype(np.float32)


def write_wav(path: Path, sound: np.ndarray) -> None:
    """Write a sound of -1 to 1 as 16-bit mono."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())
