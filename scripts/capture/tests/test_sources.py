"""The hooks for vLLM and the import of SGLang's responses agree with the sources of a version of each.

The sources come from PyPI, once: 47 MB for vLLM, 39 MB for SGLang. The parts that the tests need are kept.
KVREPLAY_REQUIRE_CAPTURE gets them. Other runs skip the tests if they are absent.
"""

import ast
import base64
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

import kvreplay
from kvreplay.captures import vllm

VLLM, SGLANG = "0.33.0", "0.5.23"
PARTS = {
    f"vllm-{VLLM}": ("model_executor/layers/sparse_attn_indexer.py", "model_executor/custom_op.py", "models/deepseek_v32/attention.py", "entrypoints/llm.py", "envs.py",
                     "engine/arg_utils.py"),
    "sglang": ("state_capturer/base.py", "state_capturer/indexer_topk.py", "managers/detokenizer_manager.py", "managers/tokenizer_manager.py", "environ.py", "arg_groups/fields/exec_.py",
               "arg_groups/fields/parallel.py", "layers/attention/dsa/dsa_topk_backend.py"),
}
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]


def download(folder: Path) -> None:
    """Gets the sources. pip reads the metadata of vLLM's archive by its setup.py, which needs these tools and torch."""
    with tempfile.TemporaryDirectory() as tools:
        subprocess.run([*PIP, "install", "--target", tools, "setuptools==80.9.0", "setuptools-scm==8.3.1", "setuptools-rust==1.12.0", "packaging", "wheel"], check=True)
        variables = os.environ | {"PYTHONPATH": tools, "VLLM_TARGET_DEVICE": "empty", "VLLM_VERSION_OVERRIDE": VLLM}
        subprocess.run([*PIP, "download", "--no-deps", "--no-build-isolation", "--no-binary", "vllm", f"vllm=={VLLM}"], cwd=folder, env=variables, check=True)
    subprocess.run([*PIP, "download", "--no-deps", "--only-binary", ":all:", "--python-version", "311", "--platform", "manylinux_2_34_x86_64", f"sglang=={SGLANG}"],
                   cwd=folder, check=True)
    with tarfile.open(folder / f"vllm-{VLLM}.tar.gz") as archive:
        for part in PARTS[f"vllm-{VLLM}"]:
            archive.extract(f"vllm-{VLLM}/vllm/{part}", folder, filter="data")
    (wheel,) = folder.glob("sglang-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for part in PARTS["sglang"]:
            archive.extract(f"sglang/srt/{part}", folder)
    for file in folder.iterdir():
        if file.is_file():
            file.unlink()


@pytest.fixture(scope="session")
def sources():
    """The folder of the sources, next to the environment of the capture."""
    folder = Path(sys.prefix).parent / f"sources-vllm{VLLM}-sglang{SGLANG}"
    if not folder.exists():
        if not os.environ.get("KVREPLAY_REQUIRE_CAPTURE"):
            pytest.skip("the sources of vLLM and SGLang are absent: set KVREPLAY_REQUIRE_CAPTURE=1 to get them")
        building = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
        try:
            download(building)
            building.replace(folder)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return folder


def found(tree, kind, name):
    """The class or function of a name."""
    (one,) = [node for node in ast.walk(tree) if isinstance(node, kind) and node.name == name]
    return one


def parse(path):
    return ast.parse(path.read_text())


def test_vllm_calls_the_function(sources, monkeypatch):
    """The call of DeepSeek-V3.2's attention on CUDA, with the parameters of the function, is recorded."""
    definition = found(parse(sources / f"vllm-{VLLM}/vllm/model_executor/layers/sparse_attn_indexer.py"), ast.FunctionDef, "sparse_attn_indexer")
    for argument in definition.args.args:
        argument.annotation = None
    attention = parse(sources / f"vllm-{VLLM}/vllm/models/deepseek_v32/attention.py")
    imported = [a.name for node in ast.walk(attention) if isinstance(node, ast.ImportFrom) and node.module == "vllm.model_executor.layers.sparse_attn_indexer" for a in node.names]
    assert "sparse_attn_indexer" in imported
    method = found(found(attention, ast.ClassDef, "DeepseekV32Attention"), ast.FunctionDef, "_sparse_indexer_and_attn")
    (call,) = [node for node in ast.walk(method) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "sparse_attn_indexer"]

    namespace = types.ModuleType("attention_of_vllm")
    monkeypatch.setitem(sys.modules, namespace.__name__, namespace)
    parameters = [a.arg for a in method.args.args]
    text = f"""
import torch
def sparse_attn_indexer({ast.unparse(definition.args)}):
    topk_indices_buffer[: hidden_states.shape[0], 0] = torch.arange(hidden_states.shape[0])
class DeepseekV32Attention(torch.nn.Module):
    def forward({', '.join(parameters)}):
        {ast.unparse(call)}
"""
    exec(text, namespace.__dict__)
    model = torch.nn.Module()
    model.attention = namespace.DeepseekV32Attention()
    model.attention.__dict__ |= {name: mock.MagicMock() for name in ("indexer", "dcp_manager", "_vllm_config", "use_pcp", "pcp_shard_decode_requests", "_dense_mha_metadata_layer_name")}
    model.attention.indexer.k_cache.prefix = "model.layers.3.self_attn.indexer.k_cache"
    model.attention.topk_indices_buffer = torch.full((8, 2), 5, dtype=torch.int32)
    vllm.attach(model)
    values = dict.fromkeys(parameters[1:], None) | {"q_c": torch.zeros(3, 4)}
    model.attention(**values)
    model.attention(**values | {"q_c": torch.zeros(1, 4)})
    (layer, rows), = vllm.collect(model).items()
    assert layer == 3 and rows.tolist() == [[0, -1], [1, -1], [2, -1], [0, -1]]


def test_vllm_has_the_layer(sources):
    """Models that call the layer go through its forward, with the hidden states first. It has and returns the buffer."""
    tree = parse(sources / f"vllm-{VLLM}/vllm/model_executor/layers/sparse_attn_indexer.py")
    layer = found(tree, ast.ClassDef, vllm.CLASS)
    assert [base.id for base in layer.bases] == ["CustomOp"]
    for name in ("forward_native", "forward_cuda"):
        assert [a.arg for a in found(layer, ast.FunctionDef, name).args.args][:2] == ["self", "hidden_states"]
    assert "self.topk_indices_buffer = topk_indices_buffer" in ast.unparse(found(layer, ast.FunctionDef, "__init__"))
    function = found(tree, ast.FunctionDef, vllm.FUNCTION)
    text = ast.unparse(function)
    assert text.endswith("return topk_indices_buffer") and "topk_indices_buffer[:hidden_states.shape[0]] = -1" in text
    operation = found(parse(sources / f"vllm-{VLLM}/vllm/model_executor/custom_op.py"), ast.ClassDef, "CustomOp")
    assert ast.unparse(operation.bases[0]) == "nn.Module" and "self._forward_method(*args, **kwargs)" in ast.unparse(found(operation, ast.FunctionDef, "forward"))


def test_vllm_takes_the_arguments(sources):
    root = sources / f"vllm-{VLLM}/vllm"
    llm = found(parse(root / "entrypoints/llm.py"), ast.ClassDef, "LLM")
    assert [a.arg for a in found(llm, ast.FunctionDef, "apply_model").args.args] == ["self", "func"]
    assert "VLLM_ALLOW_INSECURE_SERIALIZATION" in (root / "envs.py").read_text()
    options = ast.unparse(found(parse(root / "engine/arg_utils.py"), ast.ClassDef, "EngineArgs"))
    assert "enforce_eager:" in options and "enable_prefix_caching:" in options


@pytest.fixture
def capturer(sources, monkeypatch):
    """SGLang's own recorder, without the parts that need a GPU."""
    context = mock.MagicMock()
    context.get_parallel.return_value.attn_tp_size = 1
    context.get_schedule.return_value.chunked_prefill_size = 16
    memory = mock.MagicMock(ALLOC_MEMORY_FUNCS={"cpu": lambda shape, dtype, **_: torch.empty(shape, dtype=dtype)})
    stand_ins = {"pybase64": base64, "sglang.srt.configs.model_config": mock.MagicMock(), "sglang.srt.runtime_context": context, "sglang.srt.mem_cache.memory_pool": mock.MagicMock(),
                 "sglang.srt.mem_cache.pool_host.common": memory, "sglang.srt.model_executor.forward_batch_info": mock.MagicMock(),
                 "sglang.srt.utils": mock.MagicMock(is_cuda=lambda: False, is_hip=lambda: False)}
    for name, module in stand_ins.items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("sglang", "sglang.srt", "sglang.srt.state_capturer", "sglang.srt.state_capturer.base", "sglang.srt.state_capturer.indexer_topk"):
        module = types.ModuleType(name)
        module.__path__ = []
        monkeypatch.setitem(sys.modules, name, module)
        file = sources / (name.replace(".", "/") + ".py")
        if file.exists():
            exec(compile(file.read_text(), str(file), "exec"), module.__dict__)
    return module._create_indexer_capturer_raw(enable=True, num_indexer_layers=3, index_topk=8, num_tokens=200, max_running_requests=4, device="cpu")


def record(capturer, sources, tmp_path, prompt, completion, select):
    """Runs SGLang's recorder over a request, prefilled in chunks, and writes a response with its encoding."""
    slots = torch.from_numpy(np.random.default_rng(1).permutation(200)[: prompt + completion])
    chunks = [range(a, min(a + 16, prompt)) for a in range(0, prompt, 16)] + [range(p, p + 1) for p in range(prompt, prompt + completion - 1)]
    for chunk in chunks:
        for layer in range(3):
            rows = torch.full((len(chunk), 8), -1, dtype=torch.int32)
            for row, p in zip(rows, chunk, strict=True):
                chosen = select(p, layer, slots)
                row[: len(chosen)] = torch.tensor(chosen)
            capturer.capture(layer, rows)
        capturer.on_forward_end(types.SimpleNamespace(out_cache_loc=slots[list(chunk)], out_cache_loc_virtual=None), False, None)
    recorded = capturer.get_topk(0, prompt + completion, types.SimpleNamespace(req_to_token=slots[None]))
    encode = found(parse(sources / "sglang/srt/managers/detokenizer_manager.py"), ast.FunctionDef, "_b64_encode_per_request")
    encode.decorator_list, encode.returns, encode.args.args[0].annotation = [], None, None
    namespace = {"pybase64": base64}
    exec(ast.unparse(encode), namespace)
    (text,) = namespace["_b64_encode_per_request"]([recorded])
    file = tmp_path / "response.json"
    file.write_text(json.dumps({"text": "…", "meta_info": {"id": "a", "prompt_tokens": prompt, "completion_tokens": completion, "indexer_topk": text}}))
    return file


def positions(p, layer, _slots):
    """The selection of a token, in no order."""
    return [(p - 3 * k - layer) % (p + 1) for k in range(8)] if p >= 24 else list(range(p + 1))[-8:] if p >= 8 else list(range(p, -1, -1))


def test_sglang_records_a_trace(capturer, sources, tmp_path):
    trace = kvreplay.Trace.load(record(capturer, sources, tmp_path, 40, 6, positions), entry_bytes=656)
    assert [(s.request, s.layer, s.prompt_len) for s in trace] == [("a", layer, 40) for layer in range(3)]
    for stream in trace:
        assert stream.steps.tolist() == list(range(-32, 5))
        for step, row in zip(stream.steps, stream.indices, strict=True):
            assert row[row >= 0].tolist() == sorted(positions(40 + int(step), stream.layer, None))


@pytest.mark.parametrize("shape", [{}, {"layers": 3, "index_topk": 8}])
def test_sglang_slots_are_refused(capturer, sources, tmp_path, shape):
    """With SGLang's fused kernel the values are slots of its cache. They are no positions."""
    file = record(capturer, sources, tmp_path, 40, 6, lambda p, layer, slots: slots[positions(p, layer, slots)].tolist())
    with pytest.raises(kvreplay.Error, match="SGLANG_DSA_FUSE_TOPK=0"):
        kvreplay.Trace.load(file, entry_bytes=656, **shape)


def test_sglang_has_the_switches(sources):
    root = sources / "sglang/srt"
    assert "SGLANG_DSA_FUSE_TOPK = EnvBool(True)" in (root / "environ.py").read_text()
    assert "if not envs.SGLANG_DSA_FUSE_TOPK.get() or force_unfused_topk:" in (root / "layers/attention/dsa/dsa_topk_backend.py").read_text()
    assert "enable_return_indexer_topk:" in (root / "arg_groups/fields/exec_.py").read_text()
    assert "attn_dp_size:" in (root / "arg_groups/fields/parallel.py").read_text()
    assert "only supports DP attention" in (root / "state_capturer/indexer_topk.py").read_text()
    response = (root / "managers/tokenizer_manager.py").read_text()
    assert all(f'"{key}"' in response for key in ("id", "prompt_tokens", "completion_tokens", "indexer_topk"))
