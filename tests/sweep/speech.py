"""Speech networks of the sweep: recognisers, synthesisers with durations, codecs, detectors."""

from __future__ import annotations

import math
from typing import Any

import torch
import transformers
from decoders import moonshine
from entries import Built, Input, network
from torch import nn

SAMPLES = (
    {"batch": 2, "samples": 3200}, {"batch": 1, "samples": 1600}, {"samples": 4000},
    {"batch": 1, "samples": 5121}, {"batch": 1, "samples": 25600},
)  # fmt: skip
FRAMES = (
    {"batch": 2, "frames": 40}, {"batch": 1, "frames": 16}, {"frames": 53},
    {"batch": 3, "frames": 64}, {"batch": 1, "frames": 320},
)  # fmt: skip
TOKENS = ({"length": 8}, {"length": 2}, {"length": 9}, {"length": 13}, {"length": 48})
WAV2VEC: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "conv_dim": (16, 16, 16), "conv_kernel": (10, 3, 3), "conv_stride": (5, 4, 4),
    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "vocab_size": 30,
    "num_feat_extract_layers": 3,
}  # fmt: skip


def _recogniser(name: str, **more: Any) -> Built:
    config = getattr(transformers, f"{name}Config")(**WAV2VEC, **more)
    model = getattr(transformers, f"{name}ForCTC")(config)
    return Built(model, {"samples": Input(("batch", "samples"))}, lambda m, x: m(x).logits)


@network(*SAMPLES)
def wav2vec2() -> Built:
    return _recogniser("Wav2Vec2")


@network(*SAMPLES)
def wav2vec2_conformer() -> Built:
    return _recogniser("Wav2Vec2Conformer", conv_depthwise_kernel_size=5)


@network(*SAMPLES)
def hubert() -> Built:
    return _recogniser("Hubert")


@network(*SAMPLES)
def moonshine_encoder() -> Built:
    model = moonshine().model.encoder
    return Built(model, {"samples": Input(("batch", "samples"))}, lambda m, x: m(x)[0])


@network(*TOKENS)
def vits() -> Built:
    """Text to samples: durations decide the number of frames; noise is switched off."""
    config = transformers.VitsConfig(
        vocab_size=38, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=32,
        flow_size=16, spectrogram_bins=17, prior_encoder_num_flows=2,
        prior_encoder_num_wavenet_layers=1, duration_predictor_num_flows=2,
        duration_predictor_filter_channels=16, depth_separable_num_layers=1,
        duration_predictor_flow_bins=10, upsample_initial_channel=16, upsample_rates=[4, 2],
        upsample_kernel_sizes=[8, 4], resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]],
        use_stochastic_duration_prediction=False, noise_scale=0.0, noise_scale_duration=0.0,
    )  # fmt: skip
    model = transformers.VitsModel(config)
    with torch.no_grad():
        model.duration_predictor.proj.bias.fill_(0.8)
    inputs = {"input_ids": Input((1, "length"), "ids", 38),
              "attention_mask": Input((1, "length"), "ones")}  # fmt: skip

    def call(model: Any, ids: Any, mask: Any) -> Any:
        found = model(input_ids=ids, attention_mask=mask)
        return found.waveform, found.sequence_lengths

    return Built(model, inputs, call)


class DurationSynthesiser(nn.Module):
    """Text to samples as Kokoro and StyleTTS 2: an LSTM predicts durations, an alignment matrix of
    their sum expands the states, and transposed convolutions make samples."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.states = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.durations = nn.Linear(32, 10)
        self.pitch = nn.LSTM(32, 8, batch_first=True, bidirectional=True)
        self.up = nn.Sequential(
            nn.ConvTranspose1d(48, 16, 8, 4, 2), nn.LeakyReLU(0.1), nn.Conv1d(16, 16, 3, padding=1),
            nn.ConvTranspose1d(16, 8, 4, 2, 1), nn.Tanh(), nn.Conv1d(8, 1, 7, padding=3),
        )  # fmt: skip

    def forward(self, ids: Any, speed: Any) -> Any:
        states = self.states(self.words(ids))[0]
        durations = torch.sigmoid(self.durations(states)).sum(-1) / speed
        counts = torch.round(durations).clamp(min=1).long()[0]
        ends = counts.cumsum(0)
        total = ends[-1]
        if torch.compiler.is_exporting():  # an integer that is found in the run
            total = total.item()
            torch._check(total >= 1)
        frames = torch.arange(total)
        inside = (frames[None, :] < ends[:, None]) & (frames[None, :] >= (ends - counts)[:, None])
        expanded = states.transpose(1, 2) @ inside.to(states.dtype)[None]
        pitch = self.pitch(expanded.transpose(1, 2))[0].transpose(1, 2)
        return self.up(torch.cat([expanded, pitch], 1)), counts


@network(*TOKENS)
def kokoro_like() -> Built:
    inputs = {"ids": Input((1, "length"), "ids"), "speed": Input((1,), "unit")}
    return Built(DurationSynthesiser(), inputs, lambda m, ids, speed: m(ids, speed + 0.5))


class SelfAttention(nn.Module):
    """Layer of attention with a norm; the script exporter fixes the size of torch's own."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.out, self.norm = nn.Linear(32, 96), nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.heads(x).reshape(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(*parts.unbind())
        return self.norm(x + self.out(found.transpose(1, 2).reshape(batch, length, width)))


class RepeatSynthesiser(nn.Module):
    """Text to spectra as FastSpeech: states are repeated by durations and decoded."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.encoder, self.decoder = SelfAttention(), SelfAttention()
        self.durations = nn.Linear(32, 1)
        self.mel = nn.Linear(32, 20)

    def forward(self, ids: Any) -> Any:
        states = self.encoder(self.words(ids))
        logs = self.durations(states).squeeze(-1)
        counts = (torch.exp(logs) - 1).round().clamp(1, 6).long()
        expanded = torch.repeat_interleave(states[0], counts[0], dim=0)
        if torch.compiler.is_exporting():  # the sum of the counts is at least the first of them
            torch._check(expanded.shape[0] >= 1)
        return self.mel(self.decoder(expanded[None]))


@network(*TOKENS)
def fastspeech_like() -> Built:
    return Built(RepeatSynthesiser(), {"ids": Input((1, "length"), "ids")})


@network(*FRAMES)
def hifigan() -> Built:
    config = transformers.SpeechT5HifiGanConfig(
        model_in_dim=16, upsample_initial_channel=16, upsample_rates=[4, 2],
        upsample_kernel_sizes=[8, 4], resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]],
    )  # fmt: skip
    model = transformers.SpeechT5HifiGan(config)
    return Built(model, {"mel": Input(("batch", "frames", 16))})


def _speecht5() -> Any:
    config = transformers.SpeechT5Config(
        vocab_size=50, hidden_size=32, encoder_layers=2, encoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64,
        speech_decoder_prenet_units=16, speech_decoder_postnet_units=16, num_mel_bins=16,
        speaker_embedding_dim=8, reduction_factor=2, max_text_positions=400,
    )  # fmt: skip
    return transformers.SpeechT5ForTextToSpeech(config)


@network(
    {"batch": 2, "length": 8}, {"batch": 1, "length": 2}, {"length": 13}, {"length": 9},
    {"batch": 1, "length": 60},
)  # fmt: skip
def speecht5_encoder() -> Built:
    inputs = {"input_ids": Input(("batch", "length"), "ids"),
              "attention_mask": Input(("batch", "length"), "mask")}  # fmt: skip
    model = _speecht5().speecht5.encoder
    return Built(model, inputs, lambda m, ids, mask: m(input_values=ids, attention_mask=mask)[0])


@network(
    {"frames": 4, "source": 8}, {"frames": 1, "source": 2}, {"frames": 7, "source": 13},
    {"frames": 12, "source": 5}, {"frames": 40, "source": 60},
)  # fmt: skip
def speecht5_decoder() -> Built:
    inputs = {"mel": Input((1, "frames", 16)), "speaker": Input((1, 8)),
              "encoder_hidden_states": Input((1, "source", 32))}  # fmt: skip

    def call(model: Any, mel: Any, speaker: Any, states: Any) -> Any:
        hidden = model.speecht5.decoder.prenet(mel, speaker)
        found = model.speecht5.decoder.wrapped_decoder(
            hidden_states=hidden, encoder_hidden_states=states, use_cache=False
        )[0]
        spectrum = model.speech_decoder_postnet.feat_out(found)
        return spectrum.view(found.shape[0], -1, 16)

    return Built(_speecht5(), inputs, call)


class RelativeConformer(nn.Module):
    """Conformer as NeMo and ESPnet: subsampling, attention with relative positions that are made at
    each length, masks from lengths, depthwise convolutions."""

    def __init__(self, size: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.size, self.heads = size, heads
        self.sub = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU()
        )
        self.into = nn.Linear(8 * 5, size)
        self.qkv, self.position = nn.Linear(size, 3 * size), nn.Linear(size, size, bias=False)
        self.bias = nn.Parameter(torch.randn(heads, 1, size // heads) * 0.1)
        self.norms = nn.ModuleList([nn.LayerNorm(size) for _ in range(3)])
        self.widen, self.narrow = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)
        self.gate = nn.Conv1d(size, 2 * size, 1)
        self.deep = nn.Conv1d(size, size, 5, padding=2, groups=size)
        self.batch_norm = nn.BatchNorm1d(size)

    def positions(self, length: Any) -> Any:
        places = torch.arange(length - 1, -length, -1, dtype=torch.float32)
        scale = torch.exp(torch.arange(0, self.size, 2) * -(math.log(10000.0) / self.size))
        angles = places[:, None] * scale
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)

    def attention(self, x: Any, mask: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = (each.view(batch, length, self.heads, -1).transpose(1, 2)
                   for each in self.qkv(x).chunk(3, -1))  # fmt: skip
        p = self.position(self.positions(length)).view(1, -1, self.heads, self.size // self.heads)
        content = (q + self.bias) @ k.transpose(-2, -1)
        shifted = q @ p.permute(0, 2, 3, 1)
        shifted = nn.functional.pad(shifted, (1, 0)).view(batch, self.heads, -1, length)
        shifted = shifted[:, :, 1:].view(batch, self.heads, length, -1)[..., :length]
        scores = (content + shifted) / math.sqrt(self.size // self.heads)
        scores = scores.masked_fill(~mask[:, None, None, :], -1e4).softmax(-1)
        return (scores @ v).transpose(1, 2).reshape(batch, length, -1)

    def forward(self, mel: Any, lengths: Any) -> Any:
        x = self.sub(mel[:, None])
        x = self.into(x.transpose(1, 2).flatten(2))
        lengths = (lengths + 3) // 4
        mask = torch.arange(x.shape[1])[None] < lengths[:, None]
        x = x + 0.5 * self.narrow(nn.functional.silu(self.widen(self.norms[0](x))))
        x = x + self.attention(self.norms[1](x), mask)
        y = nn.functional.glu(self.gate(self.norms[2](x).transpose(1, 2)), 1)
        y = nn.functional.silu(self.batch_norm(self.deep(y * mask[:, None])))
        return x + y.transpose(1, 2), lengths


@network(*FRAMES)
def conformer() -> Built:
    inputs = {"mel": Input(("batch", "frames", 20)), "lengths": Input(("batch",), "ids", "frames")}
    return Built(RelativeConformer(), inputs)


@network(*SAMPLES)
def encodec() -> Built:
    """Encoder and decoder of a neural codec with padding that depends on the length."""
    config = transformers.EncodecConfig(
        num_filters=4, hidden_size=16, codebook_size=32, codebook_dim=16, num_lstm_layers=1,
        upsampling_ratios=[4, 4], normalize=False, target_bandwidths=[1.5],
    )  # fmt: skip
    model = transformers.EncodecModel(config)
    return Built(
        model, {"samples": Input(("batch", 1, "samples"))}, lambda m, x: m.decoder(m.encoder(x))
    )


class VoiceDetector(nn.Module):
    """Spectrum by a convolution, as in Silero, and an LSTM whose state is an input and output."""

    def __init__(self) -> None:
        super().__init__()
        self.basis = nn.Conv1d(1, 66, 64, 32, bias=False)
        self.frames = nn.Conv1d(33, 16, 3, 2, 1)
        self.memory = nn.LSTM(16, 16, batch_first=True)
        self.score = nn.Linear(16, 1)

    def forward(self, samples: Any, h: Any, c: Any) -> Any:
        padded = nn.functional.pad(samples[:, None], (32, 32), mode="reflect")
        real, imaginary = self.basis(padded).chunk(2, 1)
        x = self.frames(torch.sqrt(real**2 + imaginary**2 + 1e-6)).relu()
        x, (h, c) = self.memory(x.transpose(1, 2), (h, c))
        return torch.sigmoid(self.score(x)).mean(1), h, c


@network(*SAMPLES)
def voice_detector() -> Built:
    state = Input((1, "batch", 16))
    inputs = {"samples": Input(("batch", "samples")), "h": state, "c": state}
    return Built(VoiceDetector(), inputs)


class Spectrum(nn.Module):
    """Sizes of spectra by torch.stft, with a mask over them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.mask = nn.Linear(33, 33)

    def forward(self, samples: Any) -> Any:
        is_complex = torch.compiler.is_exporting()  # the other exporter has no complex numbers
        found = torch.stft(samples, 64, 32, window=self.window, return_complex=is_complex)
        found = torch.view_as_real(found) if is_complex else found
        size = torch.sqrt(found.pow(2).sum(-1) + 1e-6).transpose(1, 2)
        return size * torch.sigmoid(self.mask(size))


@network(*SAMPLES)
def stft_mask() -> Built:
    return Built(Spectrum(), {"samples": Input(("batch", "samples"))})
