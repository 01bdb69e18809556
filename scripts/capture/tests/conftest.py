"""Tiny models with random weights, in the supported families."""

import json
from pathlib import Path

import pytest
import torch
import transformers

from kvreplay.captures.run import set_up_libraries

VOCABULARY = 96
BASE = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
FAMILIES = {
    "llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config, "qwen3": transformers.Qwen3Config,
    "mistral": transformers.MistralConfig, "phi3": transformers.Phi3Config, "smollm3": transformers.SmolLM3Config,
    "granite": transformers.GraniteConfig, "olmo2": transformers.Olmo2Config,
}


@pytest.fixture(scope="session", autouse=True)
def libraries():
    set_up_libraries()
    torch.set_num_threads(1)


def tiny(family: str, **changes):
    """A model with attention so peaked that rounding does not decide rankings."""
    if family in ("qwen3", "smollm3"):
        changes.setdefault("head_dim", 8)
    if family == "mistral":
        changes.setdefault("sliding_window", None)
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(FAMILIES[family](**(BASE | changes)))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.3)
    return model.eval()


def save(model, folder: Path) -> Path:
    """The model with a tokenizer of one token per word: w3 … w95, and unknown words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    fast.chat_template = "{% for m in messages %}w90 {{ m['content'] }} w91{% endfor %} w92 "
    fast.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llama(tmp_path_factory) -> Path:
    return save(tiny("llama"), tmp_path_factory.mktemp("llama"))


def prompt(length: int, seed: int) -> str:
    generator = torch.Generator().manual_seed(seed)
    return " ".join(f"w{int(x)}" for x in torch.randint(3, 90, (length,), generator=generator))


@pytest.fixture
def workload(tmp_path) -> Path:
    """Three prompts. The first has RULER's keys."""
    rows = [{"index": i, "input": prompt(length, i), "outputs": ["w3"], "length": length + 6, "answer_prefix": ""}
            for i, length in enumerate((61, 75, 70))]
    rows[1] |= {"task": "niah_single_1", "benchmark": "ruler", "id": "named", "max_new_tokens": 4, "chat_template": True}
    rows[2] |= {"task": "vt", "max_new_tokens": 9}
    path = tmp_path / "work.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
