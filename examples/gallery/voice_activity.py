"""Voice activity: mark when somebody speaks.

Network: Silero VAD, MIT, a file of the package silero-vad. Sound: two synthesised sentences in
noise. Writes a plot of the sound and of the probability of speech, and the sound as .wav.
"""

import argparse
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from plot import write_svg
from voice import RATE, speak, write_wav

import tvmrt

NETWORK = "silero_vad/data/silero_vad_16k_op15.onnx"
CONTEXT, WINDOW = 64, 512  # samples
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default=distribution("silero-vad").locate_file(NETWORK))
parser.add_argument("--out", type=Path, default=Path("voice_activity.svg"))
options = parser.parse_args()

sentences = [speak("aiueoaiu", 2, 120, 8), speak("eiaoueiaoiea", 3, 150, 12)]
parts = [np.pad(sentence, (2 * RATE, RATE)) for sentence in sentences]
truth = np.concatenate([np.pad(np.ones(len(s), bool), (2 * RATE, RATE)) for s in sentences])
noise = np.random.default_rng(0).standard_normal(len(truth))
sound = np.concatenate(parts) + np.float32(0.01) * noise.astype(np.float32)

net = tvmrt.load(str(options.model), dims={"batch": 1, "sequence": CONTEXT + WINDOW})
state, probabilities = np.zeros((2, 1, 128), np.float32), []
for start in range(CONTEXT, len(sound) - WINDOW, WINDOW):
    answer, state = net(sound[None, start - CONTEXT : start + WINDOW], state, RATE)
    probabilities.append(float(answer[0, 0]))
said = truth[CONTEXT + WINDOW // 2 :: WINDOW][: len(probabilities)]
right = said == (np.array(probabilities) > 0.5)
write_wav(options.out.with_suffix(".wav"), sound)
write_svg(options.out, {"sound": sound[::64], "probability of speech": np.array(probabilities)})
print(f"accuracy {right.mean():.3f} of {len(right)} windows of 32 ms")
