"""Text networks of the sweep: encoders, taggers, classifiers."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from entries import Built, Input, network
from torch import nn

SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50,
    "intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 512, "embedding_size": 32,
    "cls_token_id": 1, "sep_token_id": 2, "dim": 32, "n_heads": 4, "n_layers": 2, "hidden_dim": 64,
}  # fmt: skip
LENGTHS = (
    {"batch": 2, "length": 7}, {"batch": 1, "length": 1}, {"batch": 3, "length": 12},
    {"length": 9}, {"batch": 5, "length": 60},
)  # fmt: skip
IDS = {"input_ids": Input(("batch", "length"), "ids"),
       "attention_mask": Input(("batch", "length"), "mask")}  # fmt: skip


def small(name: str, model: str = "Model", **more: Any) -> Any:
    """Return a small transformer of a family, with random weights."""
    config_class = getattr(transformers, f"{name}Config")
    known = set(vars(config_class()))
    config = config_class(**{k: v for k, v in SMALL.items() if k in known}, **more)
    return getattr(transformers, name + model)(config).eval()


def encoder(model: Any) -> Built:
    """Return an encoder of ids and a mask with its last hidden states."""
    return Built(model, IDS, lambda m, ids, mask: m(input_ids=ids, attention_mask=mask)[0])


@network(*LENGTHS)
def bert() -> Built:
    return encoder(small("Bert"))


@network(*LENGTHS)
def modernbert() -> Built:
    return encoder(small("ModernBert", local_attention=8, global_attn_every_n_layers=2))


@network(*LENGTHS)
def deberta_v2() -> Built:
    more = {"relative_attention": True, "position_buckets": 16, "max_relative_positions": 32}
    return encoder(small("DebertaV2", pos_att_type=["p2c", "c2p"], **more))


@network(*LENGTHS)
def distilbert_classifier() -> Built:
    model = small("DistilBert", "ForSequenceClassification", num_labels=3)
    return Built(model, IDS, lambda m, ids, mask: m(input_ids=ids, attention_mask=mask).logits)


@network(*LENGTHS)
def roberta_tagger() -> Built:
    model = small("Roberta", "ForTokenClassification", num_labels=5)
    return Built(model, IDS, lambda m, ids, mask: m(input_ids=ids, attention_mask=mask).logits)


@network(*LENGTHS)
def sentence_embedding() -> Built:
    """Mean of the tokens of the mask, normalised, as of sentence-transformers."""

    def call(model: Any, ids: Any, mask: Any) -> Any:
        states = model(input_ids=ids, attention_mask=mask)[0]
        weights = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=1)

    return Built(small("Bert"), IDS, call)


@network(*LENGTHS)
def clip_text() -> Built:
    """Text tower that reads the state at the end token of each row."""
    config = transformers.CLIPTextConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        vocab_size=50, max_position_embeddings=77, projection_dim=16, eos_token_id=2,
    )  # fmt: skip
    model = transformers.CLIPTextModelWithProjection(config)
    return Built(model, IDS, lambda m, ids, mask: m(input_ids=ids, attention_mask=mask)[0])


@network(*LENGTHS)
def t5_encoder() -> Built:
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=50
    )
    return encoder(transformers.T5EncoderModel(config))


class LstmTagger(nn.Module):
    """Embeddings, two bidirectional recurrent layers and a label for each token."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.states = kind(16, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.labels = nn.Linear(24, 7)

    def forward(self, ids: Any) -> Any:
        return self.labels(self.states(self.words(ids))[0]).argmax(-1)


@network(*LENGTHS)
def lstm_tagger() -> Built:
    return Built(LstmTagger(nn.LSTM), {"ids": IDS["input_ids"]})


@network(*LENGTHS)
def gru_tagger() -> Built:
    return Built(LstmTagger(nn.GRU), {"ids": IDS["input_ids"]})


class TextCnn(nn.Module):
    """Convolutions of several widths over padded text, each with its maximum."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.windows = nn.ModuleList([nn.Conv1d(16, 8, k, padding=k // 2) for k in (2, 3, 5)])
        self.labels = nn.Linear(24, 4)

    def forward(self, ids: Any) -> Any:
        rows = self.words(ids).transpose(1, 2)
        return self.labels(torch.cat([w(rows).relu().amax(-1) for w in self.windows], 1))


@network(*LENGTHS)
def text_cnn() -> Built:
    return Built(TextCnn(), {"ids": IDS["input_ids"]})


@network(*LENGTHS)
def longformer_like() -> Built:
    """Encoder that pads the text to a multiple of its window, and cuts the result."""

    def call(model: Any, ids: Any, mask: Any) -> Any:
        length = ids.shape[1]
        pad = (8 - length % 8) % 8
        ids, mask = (nn.functional.pad(each, (0, pad)) for each in (ids, mask))
        return model(input_ids=ids, attention_mask=mask)[0][:, :length]

    return Built(small("Bert"), IDS, call)
