import pytest

from kvreplay.captures import workload
from kvreplay.captures.errors import CaptureError


def test_keys_may_be_absent(tmp_path):
    path = tmp_path / "niah.jsonl"
    path.write_text('{"input": "a", "index": 7}\n\n{"input": "b", "answer_prefix": " c", "id": "x", "max_new_tokens": 3, "chat_template": true}\n{"input": "d", "task": "vt"}\n')
    first, second, third = workload.read(path)
    assert (first.id, first.text, first.prefix, first.chat, first.steps) == ("niah-7", "a", "", False, None)
    assert (second.id, second.prefix, second.chat, second.steps) == ("x", " c", True, 3)
    assert third.id == "vt-2"
    assert [p.id for p in workload.read(path, 2)] == ["niah-7", "x"]


@pytest.mark.parametrize("text, message", [
    ("", "no prompts"), ("[1]\n", "work.jsonl:1: a list"), ("{}\n", "no input"), ("{\n", "work.jsonl:1: not JSON"),
    ('{"input": 3}\n', "input is 3, expected str"), ('{"input": "a", "max_new_tokens": 0}\n', "max_new_tokens is 0"),
    ('{"input": "a", "max_new_tokens": true}\n', "expected int"), ('{"input": "a", "continuation_ids": ["x"]}\n', "continuation_ids"),
    ('{"input": "a", "id": "x"}\n{"input": "b", "id": "x"}\n', "work.jsonl:2: id 'x' is also that of line 1"),
])
def test_bad_lines(tmp_path, text, message):
    path = tmp_path / "work.jsonl"
    path.write_text(text)
    with pytest.raises(CaptureError, match=message.replace("[", r"\[")):
        workload.read(path)


def test_missing_file(tmp_path):
    with pytest.raises(CaptureError, match="read workload"):
        workload.read(tmp_path / "none.jsonl")
