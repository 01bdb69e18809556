"""Tests of the conformance kit in Python and of the plugin of pytest."""

import subprocess
import sys
from pathlib import Path

import pytest

import kvreplay

EXAMPLES = Path(__file__).parents[1] / "examples"

# LRU that names one victim too few.
TOO_FEW = (EXAMPLES / "lru.py").read_text().replace("pop(n)", "pop(n)[1:]")


def test_examples_keep_the_contract():
    kvreplay.check(f"{EXAMPLES / 'lfu.py'}:LFU", ["Entry", "Legal"], seed=3)


def test_a_breach_is_an_error_with_a_stream(tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text(TOO_FEW)
    with pytest.raises(kvreplay.Error, match=r"(?s)stream of \d+ rows: capacity .*repeat with --seed="):
        kvreplay.check(f"{file}:LRU", ["Legal"], seed=3)
    with pytest.raises(kvreplay.Error, match="unknown check"):
        kvreplay.check(f"{EXAMPLES / 'lru.py'}:LRU", ["Nonsense"])


def run_pytest(folder, *arguments):
    plugin = ["-p", "kvreplay.pytest_plugin"]  # the entry point does the same for an installed package
    return subprocess.run([sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", "-q", *arguments], cwd=folder, capture_output=True, text=True)


def test_plugin_runs_a_test_for_each_check(tmp_path):
    (tmp_path / "mine.py").write_text((EXAMPLES / "lru.py").read_text())
    done = run_pytest(tmp_path, "--kvreplay-policy", "mine.py:LRU", "--kvreplay-seed=3", "-k", "Legal or Apart")
    assert done.returncode == 0 and "2 passed" in done.stdout and "deselected" in done.stdout, done.stdout + done.stderr


def test_plugin_shows_the_counterexample(tmp_path):
    (tmp_path / "wrong.py").write_text(TOO_FEW)
    done = run_pytest(tmp_path, "--kvreplay-policy", "wrong.py:LRU", "--kvreplay-seed=3", "-k", "Legal")
    assert done.returncode == 1 and "repeat with --seed=" in done.stdout and "Traceback" not in done.stdout, done.stdout + done.stderr
    done = run_pytest(tmp_path, "--kvreplay-policy", "nowhere.py:LRU")
    assert done.returncode == 4 and "nowhere.py" in done.stderr, done.stdout + done.stderr
