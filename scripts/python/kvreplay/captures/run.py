"""One capture from options to files."""

import argparse
import ctypes
import os
import platform
import sys
from dataclasses import asdict, fields

import numpy
import pyarrow
import torch
import transformers
from tqdm import tqdm

from ..trace import schema
from . import __version__, attention, memory, model as models, selectors, table, workload
from .cache import preallocated
from .decode import Decoding
from .errors import CaptureError, nearest
from .observer import Observer, Recall, Settings
from .store import Finished, Store, file_digest

DEFAULT_STEPS = 128
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def run(options: argparse.Namespace) -> int:
    """Captures. Returns 0, or 130 after Ctrl-C. Faults of the options, the workload and the model's
    size are reported before weights are loaded."""
    set_up_libraries()
    capture = Capture(options)
    capture.prepare()
    return capture.work()


def set_up_libraries() -> None:
    """Makes large allocations directly from the system, so that it gets them back when freed
    (glibc's M_MMAP_THRESHOLD, as MALLOC_MMAP_THRESHOLD_=65536). Selects deterministic kernels."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(-3, 65536)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)


class Capture:
    """The state of one run."""

    def __init__(self, options: argparse.Namespace):
        o = self.options = options
        if o.threads:
            torch.set_num_threads(o.threads)
        self.device = device(o.device)
        self.dtype = _DTYPES[o.dtype] if o.dtype != "auto" else torch.bfloat16 if self.device.type == "cuda" else torch.float32
        candidates = o.candidates or -(-5 * o.topk // 4)
        if candidates < o.topk:
            raise CaptureError(f"--candidates {candidates} is below --topk {o.topk}, expected at least 1.25 times that")
        if o.out.suffix != ".arrow":
            raise CaptureError(f"--out {o.out}: expected a name that ends in .arrow")
        if not o.out.parent.is_dir():
            raise CaptureError(f"--out {o.out}: no folder {o.out.parent}")
        self.settings = Settings(topk=o.topk, candidates=candidates, windows=o.windows, sink=o.sink, local=o.local, per=o.per,
                                 layers=o.layers, predict=o.predict, prompt_mass=bool(o.prompt_mass) and o.windows > 0)
        self.selectors = [selectors.parse(text) for text in o.selector]
        labels = [selectors.label(s) for s in self.selectors]
        if len(set(labels)) < len(labels):
            raise CaptureError(f"--selector {' '.join(o.selector)}: one of them twice")
        self.labels = labels
        self._check_columns()
        self.decoding = Decoding(o.decode, o.temperature, o.top_p, o.seed, o.eos == "stop")
        self.prompts = workload.read(o.workload, o.limit)

    def prepare(self) -> None:
        """Makes all checks that need no weights."""
        o = self.options
        self.source = models.resolve(o.model)
        self.config = models.configuration(self.source)
        layers = self.config.num_hidden_layers
        self.layers = o.layers if o.layers is not None else tuple(range(layers))
        if max(self.layers) >= layers:
            raise CaptureError(f"--layers: layer {max(self.layers)} of {layers}, expected numbers below that")
        weights = models.parameters(self.config)
        self.tokenizer = models.tokenizer(self.source)
        self.ids = [self._tokens(p) for p in self.prompts]
        self.forced = [self._continuation(p) for p in self.prompts]
        self.steps = [self._steps(p, f) for p, f in zip(self.prompts, self.forced)]
        longest = max(range(len(self.ids)), key=lambda i: len(self.ids[i]) + self.steps[i])
        models.check_context(self.config, self.source.name, len(self.ids[longest]) + self.steps[longest], self.prompts[longest].id)
        self._check_short()
        heads = 1 if o.per == "layer" else getattr(self.config, "num_key_value_heads", self.config.num_attention_heads)
        memory.check(memory.need(self.config, weights, len(self.ids[longest]), self.steps[longest], self.dtype, len(self.selectors),
                                 heads * len(self.layers), self.settings.candidates, o.windows), self.device)
        outputs = [o.out] if len(self.labels) == 1 else [o.out.with_suffix(f".{label}.arrow") for label in self.labels]
        self.store = Store(o.out, outputs, self._fingerprint(), o.resume, o.overwrite)

    def _tokens(self, prompt: workload.Prompt) -> list[int]:
        chat = self.options.chat == "always" or self.options.chat == "auto" and prompt.chat
        if not chat:
            return self.tokenizer(prompt.text + prompt.prefix).input_ids
        if not self.tokenizer.chat_template:
            raise CaptureError(f"request {prompt.id}: wants a chat template, {self.source.name} has none: expected --chat never")
        text = self.tokenizer.apply_chat_template([{"role": "user", "content": prompt.text}], add_generation_prompt=True, tokenize=False)
        return self.tokenizer(text + prompt.prefix, add_special_tokens=False).input_ids

    def _continuation(self, prompt: workload.Prompt) -> list[int] | None:
        if self.decoding.kind != "forced":
            return None
        given = prompt.continuation
        if isinstance(given, str):
            given = self.tokenizer(given, add_special_tokens=False).input_ids
        if not given:
            raise CaptureError(f"request {prompt.id}: no continuation to force decoding along, expected continuation_ids or continuation in its row")
        if max(given) >= self.config.vocab_size:
            raise CaptureError(f"request {prompt.id}: token {max(given)} in its continuation, the model has {self.config.vocab_size}")
        return given

    def _steps(self, prompt: workload.Prompt, forced: list[int] | None) -> int:
        if forced is not None:
            return min(len(forced), self.options.steps or len(forced))
        return self.options.steps or prompt.steps or DEFAULT_STEPS

    def _check_columns(self) -> None:
        """Rejects selectors of --scores and --prompt-mass that --selector does not name."""
        for option, named in (("--scores", self.options.scores), ("--prompt-mass", self.options.prompt_mass)):
            for name in named if isinstance(named, list) else []:
                if name not in self.options.selector:
                    raise CaptureError(f"{option} {name}: not in --selector; {nearest(name, self.options.selector)}")

    def _check_short(self) -> None:
        o = self.options
        for selector in self.selectors:
            least = o.sink + o.local + o.windows + selector.shortest()
            for prompt, ids in zip(self.prompts, self.ids):
                if len(ids) < least:
                    raise CaptureError(f"request {prompt.id}: {len(ids)} tokens, selector {selector.name} needs at least {least}: "
                                       f"{o.sink} sinks, {o.local} local, {o.windows} windows and {selector.shortest()} to choose from")

    def _fingerprint(self) -> dict:
        """The values that must not change between the parts of one capture."""
        return asdict(self.settings) | {
            "layers": list(self.layers), "selectors": self.labels, "model": str(self.source.folder), "model_file": self.source.gguf,
            "decoding": str(self.decoding), "eos": self.decoding.stop, "steps": self.steps, "workload": file_digest(self.options.workload),
            "prompts": [workload.digest(ids) for ids in self.ids], "dtype": str(self.dtype), "device": self.device.type,
            "threads": torch.get_num_threads(), "attention_mass": self.options.attention_mass, "scores": self.options.scores, "version": __version__, "libraries": versions()}

    def work(self) -> int:
        """Captures the remaining requests, writes the outputs and returns the exit status."""
        todo = [i for i in range(len(self.prompts)) if i not in self.store.done()]
        try:
            if todo:
                self._capture(todo)
            self._finish(complete=True)
            return 0
        except KeyboardInterrupt:
            self._finish(complete=False)
            return 130
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as e:
            if type(e) is RuntimeError and "can't allocate memory" not in str(e):  # torch's text on the CPU
                raise
            raise CaptureError(f"out of memory on {self.device}: {str(e).splitlines()[0]}; finished requests are kept, --resume goes on") from e
        finally:
            attention.observe(None)
            if not self.store.done():
                self.store.clear()

    def _capture(self, todo: list[int]) -> None:
        model = models.load(self.source, self.config, self.dtype, self.device)
        modules = models.attention_modules(model)
        observer = Observer(self.settings, self.selectors)
        if observer.ahead:
            models.check_prediction(model, modules, observer)
        observer.watch(modules)
        ends = model.generation_config.eos_token_id if model.generation_config else None
        self.ends = set(ends if isinstance(ends, list) else [ends]) if ends is not None else {self.tokenizer.eos_token_id} - {None}
        attention.observe(observer)
        with tqdm(total=sum(self.steps[i] for i in todo), unit="step", disable=self.options.quiet) as bar, torch.inference_mode():
            for i in todo:
                bar.set_description(self.prompts[i].id)
                generated = self._request(model, i, bar)
                self._keep(i, generated, observer)

    def _request(self, model, i: int, bar) -> list[int]:
        """Runs prefill and decoding of one request under the observer. Returns the tokens fed."""
        ids = self.ids[i]
        cache = preallocated(self.config.num_hidden_layers, len(ids) + self.steps[i])
        choose = self.decoding.chooser(self.prompts[i].id, self.forced[i], self.ends)
        feed, generated = torch.tensor([ids], device=self.device), []
        for step in range(self.steps[i] + 1):
            output = model(feed, past_key_values=cache, use_cache=True, logits_to_keep=1)
            if step == self.steps[i]:
                break
            token = choose(step, output.logits[0, -1])
            if token is None:
                bar.total -= self.steps[i] - step
                break
            generated.append(token)
            feed = torch.tensor([[token]], device=self.device)
            bar.update()
        return generated

    def _keep(self, i: int, generated: list[int], observer: Observer) -> None:
        lists, mass, recalls = observer.take()
        if not lists:
            raise CaptureError(f"request {self.prompts[i].id}: nothing to record, the model ended at once and there are no --windows: expected --eos never")
        if not generated:
            print(f"capture: request {self.prompts[i].id}: the model ended at once, windows only; --eos never goes on", file=sys.stderr)
        tables = []
        for s, columns in enumerate(self._schemas()):
            tables.append([table.stream_batch(self.prompts[i].id, layer, len(self.ids[i]), lists[s, layer], selectors.per_block(mass[layer], self.selectors[s].block) if layer in mass else None,
                                              self.settings.windows, self.settings.per, columns) for layer in self.layers])
        self.store.add(Finished(i, self.prompts[i].id, len(self.ids[i]), workload.digest(self.ids[i]), generated,
                                self.tokenizer.decode(generated), [[asdict(r) for r in each] for each in recalls]), tables)

    def _schemas(self, metadata: list[dict] | None = None):
        for s, selector in enumerate(self.selectors):
            def recorded(which):
                return self.options.selector[s] in which if isinstance(which, list) else which
            scores = recorded(self.options.scores)
            mass = self.options.attention_mass == "always" or self.options.attention_mass == "auto" and scores and not selector.probability
            more = {"scores": scores, "attention_mass": mass, "predicted_indices": self.settings.predict,
                    "prompt_mass": self.settings.prompt_mass and recorded(self.options.prompt_mass)}
            yield schema("covered_mass", *(name for name, wanted in more.items() if wanted), metadata=metadata[s] if metadata else None)

    def _finish(self, complete: bool) -> None:
        """Writes the output files of finished requests and prints their recall."""
        done = self.store.done()
        if not done:
            print("capture: stopped before a request was finished", file=sys.stderr)
            return
        written = self.store.merge(list(self._schemas(self._metadata(done))), {i: p.row for i, p in enumerate(self.prompts)})
        if complete:
            self.store.clear()
        else:
            print(f"capture: stopped with {len(done)} of {len(self.prompts)} requests; --resume goes on", file=sys.stderr)
        self._report(done)
        for path in written:
            print(f"wrote {path}", file=sys.stderr)

    def _metadata(self, done: dict[int, Finished]) -> list[dict]:
        o, c = self.options, self.config
        heads = getattr(c, "num_key_value_heads", None) or c.num_attention_heads
        head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
        source = {
            "model": o.model_name or self.source.name, "licence": o.licence, "decoding": str(self.decoding),
            "generator": f"kvreplay capture {__version__}", "entry_bytes": 2 * head * o.kv_bytes * (heads if o.per == "layer" else 1)}
        notes = {"attention": "full attention; selectors were shown its queries and keys and changed nothing",
                 "weights": self.source.digest(), "dtype": str(self.dtype).removeprefix("torch."), "device": self.device.type,
                 "threads": str(torch.get_num_threads()), "windows": str(o.windows), "workload": o.workload.name}
        notes |= {f"library.{k}": v for k, v in versions().items()}
        notes |= {f"prompt.{f.id}": f"{f.prompt_tokens} tokens, sha256:{f.prompt_digest}" for f in done.values()}
        notes |= dict(o.note)
        return [table.metadata(selector, self.settings, source, notes | self._measured(done, s)) for s, selector in enumerate(self.selectors)]

    def _measured(self, done: dict[int, Finished], selector: int) -> dict[str, str]:
        """The notes on a selector's rates: exact.recall at K, exact.recall.256 at another budget of 256 tokens."""
        return {f"exact.{key}" + (f".{budget}" if i else ""): value for i, budget in enumerate(self.settings.budgets())
                for key, value in rates(total(done, selector, i)).items()}

    def _report(self, done: dict[int, Finished]) -> None:
        """Prints each selector's recall of the exact Top-K on standard output."""
        print(f"{'selector':24} {'K':>6} {'block':>5} {'recall':>7} {'resident':>8} {'mass':>7}")
        for s, selector in enumerate(self.selectors):
            for i, budget in enumerate(self.settings.budgets()):
                shares = rates(total(done, s, i)) or {"recall": "n/a", "resident": "n/a", "mass": "n/a"}
                print(f"{self.labels[s]:24} {-(-budget // selector.block):6} {selector.block:5} {shares['recall']:>7} {shares['resident']:>8} {shares['mass']:>7}")


def total(done: dict[int, Finished], selector: int, budget: int) -> Recall:
    """A selector's recall at a budget, over all requests. budget is its place in Settings.budgets."""
    return Recall(*(sum(f.recall[selector][budget][field.name] for f in done.values()) for field in fields(Recall)))


def rates(r: Recall) -> dict[str, str]:
    """Three rates: the share of the exact Top-K in the selector's first K, the share there or
    among the entries that it keeps anyway, and the selection's mass relative to the exact one's."""
    if not r.exact:
        return {}
    return {"recall": f"{r.listed / r.exact:.4f}", "resident": f"{r.resident / r.exact:.4f}", "mass": f"{r.mass / r.exact_mass:.4f}"}


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__,
            "numpy": numpy.__version__, "pyarrow": pyarrow.__version__}


def device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(name)
    except RuntimeError:
        raise CaptureError(f"--device {name}: expected cpu, cuda or cuda:N") from None
    if found.type == "cuda" and (not torch.cuda.is_available() or (found.index or 0) >= torch.cuda.device_count()):
        raise CaptureError(f"--device {name}: torch sees {torch.cuda.device_count()} such devices here")
    if found.type not in ("cpu", "cuda"):
        raise CaptureError(f"--device {name}: expected cpu, cuda or cuda:N")
    return found
