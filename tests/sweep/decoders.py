"""Decoders of the sweep: language models with their caches as inputs and outputs, and encoders with
decoders."""

from __future__ import annotations

from typing import Any

import transformers
from entries import Built, Input, network
from text import small
from transformers import DynamicCache, EncoderDecoderCache

STEPS = (
    {"batch": 2, "length": 5, "past": 4}, {"batch": 1, "length": 1, "past": 1},
    {"length": 3, "past": 6}, {"batch": 1, "length": 1, "past": 40},
    {"batch": 3, "length": 24, "past": 30},
)  # fmt: skip
TARGETS = (
    {"batch": 2, "length": 6, "source": 9}, {"batch": 1, "length": 1, "source": 5},
    {"length": 3, "source": 12}, {"batch": 3, "length": 8, "source": 8},
    {"batch": 1, "length": 40, "source": 60},
)  # fmt: skip
LAYERS = 2


def caches(heads: int, size: int, length: str = "past") -> dict[str, Input]:
    """Return the inputs of keys and values of all layers."""
    shape = ("batch", heads, length, size)
    names = [f"past_{kind}_{i}" for i in range(LAYERS) for kind in ("key", "value")]
    return {name: Input(shape) for name in names}


def cache_of(flat: tuple[Any, ...], config: Any = None) -> Any:
    """Return a cache of keys and values by layer."""
    pairs = list(zip(flat[::2], flat[1::2]))
    return DynamicCache(ddp_cache_data=pairs, config=config)


def flattened(cache: Any) -> list[Any]:
    """Return the keys and values of all layers."""
    return [each for layer in cache.layers for each in (layer.keys, layer.values)]


def with_cache(model: Any, heads: int = 2, size: int = 8) -> Built:
    """Return a language model whose cache is an input and an output."""
    inputs = {
        "input_ids": Input(("batch", "length"), "ids"),
        "attention_mask": Input(("batch", "past + length"), "ones"),
        **caches(heads, size),
    }

    def call(model: Any, ids: Any, mask: Any, *flat: Any) -> Any:
        found = model(
            input_ids=ids, attention_mask=mask, past_key_values=cache_of(flat), use_cache=True
        )
        return found.logits, *flattened(found.past_key_values)

    return Built(model, inputs, call)


@network(*STEPS)
def gpt2_past() -> Built:
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=256)
    return with_cache(transformers.GPT2LMHeadModel(config), heads=4)


@network(*STEPS)
def llama_past() -> Built:
    return with_cache(small("Llama", "ForCausalLM"))


@network(*STEPS)
def qwen3_past() -> Built:
    return with_cache(small("Qwen3", "ForCausalLM"))


@network(*STEPS)
def qwen3_moe() -> Built:
    """Experts with their routes; without a cache."""
    model = small(
        "Qwen3Moe", "ForCausalLM", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        experts_implementation="eager",
    )  # fmt: skip
    inputs = {
        "input_ids": Input(("batch", "length"), "ids"),
        "attention_mask": Input(("batch", "length"), "mask"),
    }

    def call(model: Any, ids: Any, mask: Any) -> Any:
        return model(input_ids=ids, attention_mask=mask, use_cache=False).logits

    return Built(model, inputs, call)


@network(*STEPS)
def gptneox_past() -> Built:
    return with_cache(small("GPTNeoX", "ForCausalLM", is_decoder=True), heads=4)


@network(*STEPS)
def llama_prefill() -> Built:
    """First step, whose caches are outputs only."""
    inputs = {
        "input_ids": Input(("batch", "length"), "ids"),
        "attention_mask": Input(("batch", "length"), "mask"),
    }

    def call(model: Any, ids: Any, mask: Any) -> Any:
        found = model(input_ids=ids, attention_mask=mask, use_cache=True)
        return found.logits, *flattened(found.past_key_values)

    return Built(small("Llama", "ForCausalLM"), inputs, call)


def _t5() -> Any:
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=50,
        decoder_start_token_id=0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


SEQ2SEQ = {
    "input_ids": Input(("batch", "source"), "ids"),
    "attention_mask": Input(("batch", "source"), "mask"),
    "decoder_input_ids": Input(("batch", "length"), "ids"),
}


def seq2seq(model: Any) -> Built:
    """Return an encoder with its decoder, without caches."""

    def call(model: Any, ids: Any, mask: Any, targets: Any) -> Any:
        return model(
            input_ids=ids, attention_mask=mask, decoder_input_ids=targets, use_cache=False
        ).logits

    return Built(model, SEQ2SEQ, call)


@network(*TARGETS)
def t5() -> Built:
    return seq2seq(_t5())


@network(*TARGETS)
def bart() -> Built:
    config = transformers.BartConfig(
        d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=50,
        max_position_embeddings=256, pad_token_id=0,
    )  # fmt: skip
    return seq2seq(transformers.BartForConditionalGeneration(config))


T5_STEPS = (
    {"batch": 2, "length": 1, "past": 4, "source": 9}, {"batch": 1, "past": 1, "source": 5},
    {"past": 6, "source": 12}, {"batch": 3, "past": 30, "source": 8},
    {"batch": 1, "past": 40, "source": 60},
)  # fmt: skip


@network(*T5_STEPS)
def t5_decoder_past() -> Built:
    """One step of a decoder with caches of itself and of the encoder's states."""
    inputs = {
        "decoder_input_ids": Input(("batch", 1), "ids"),
        "encoder_hidden_states": Input(("batch", "source", 32)),
        "encoder_attention_mask": Input(("batch", "source"), "mask"),
        **{f"self_{name}": each for name, each in caches(4, 8).items()},
        **{f"cross_{name}": each for name, each in caches(4, 8, "source").items()},
    }

    def call(model: Any, ids: Any, states: Any, mask: Any, *flat: Any) -> Any:
        own, cross = (cache_of(flat[: 2 * LAYERS]), cache_of(flat[2 * LAYERS :]))
        found = model(
            decoder_input_ids=ids, encoder_outputs=(states,), attention_mask=mask,
            past_key_values=EncoderDecoderCache(own, cross), use_cache=True,
        )  # fmt: skip
        return found.logits, *flattened(found.past_key_values.self_attention_cache)

    return Built(_t5(), inputs, call)


def _whisper() -> Any:
    config = transformers.WhisperConfig(
        d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=50,
        num_mel_bins=16, max_source_positions=50, max_target_positions=256, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None,
        begin_suppress_tokens=None,
    )  # fmt: skip
    return transformers.WhisperForConditionalGeneration(config)


@network({"batch": 2}, {"batch": 1}, {"batch": 3}, {"batch": 4}, {"batch": 16})
def whisper_encoder() -> Built:
    return Built(_whisper().model.encoder, {"mel": Input(("batch", 16, 100))}, lambda m, x: m(x)[0])


@network(*TARGETS)
def whisper_decoder() -> Built:
    inputs = {
        "decoder_input_ids": Input(("batch", "length"), "ids"),
        "encoder_hidden_states": Input(("batch", "source", 32)),
        "decoder_attention_mask": Input(("batch", "length"), "mask"),
    }

    def call(model: Any, ids: Any, states: Any, mask: Any) -> Any:
        return model(
            decoder_input_ids=ids, encoder_outputs=(states,), decoder_attention_mask=mask,
            use_cache=False,
        ).logits  # fmt: skip

    return Built(_whisper(), inputs, call)


@network(*T5_STEPS)
def whisper_decoder_past() -> Built:
    inputs = {
        "decoder_input_ids": Input(("batch", 1), "ids"),
        "encoder_hidden_states": Input(("batch", "source", 32)),
        **{f"self_{name}": each for name, each in caches(4, 8).items()},
    }

    def call(model: Any, ids: Any, states: Any, *flat: Any) -> Any:
        caches = EncoderDecoderCache(cache_of(flat), DynamicCache())
        found = model(
            decoder_input_ids=ids, encoder_outputs=(states,), past_key_values=caches, use_cache=True
        )
        return found.logits, *flattened(found.past_key_values.self_attention_cache)

    return Built(_whisper(), inputs, call)


def moonshine() -> Any:
    """Return a small speech recogniser that reads samples."""
    config = transformers.MoonshineConfig(
        hidden_size=32, intermediate_size=64, encoder_num_hidden_layers=2,
        decoder_num_hidden_layers=2, encoder_num_attention_heads=4, decoder_num_attention_heads=4,
        encoder_num_key_value_heads=4, decoder_num_key_value_heads=4, vocab_size=50,
    )  # fmt: skip
    return transformers.MoonshineForConditionalGeneration(config)


@network(*TARGETS)
def moonshine_decoder() -> Built:
    inputs = {
        "decoder_input_ids": Input(("batch", "length"), "ids"),
        "encoder_hidden_states": Input(("batch", "source", 32)),
        "decoder_attention_mask": Input(("batch", "length"), "mask"),
    }

    def call(model: Any, ids: Any, states: Any, mask: Any) -> Any:
        found = model.model.decoder(
            input_ids=ids, encoder_hidden_states=states, attention_mask=mask, use_cache=False
        )
        return model.proj_out(found[0])

    return Built(moonshine(), inputs, call)
