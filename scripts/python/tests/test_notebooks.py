"""The notebooks among the examples run, and are kept without outputs."""

from pathlib import Path

import nbclient
import nbformat
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
DATA = Path(__file__).parents[3] / "datasets"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebook(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells), "clear the outputs before you commit it"
    folder = tmp_path / "scripts/python/examples"  # as in a clone, so that a notebook may write files
    folder.mkdir(parents=True)
    (tmp_path / "datasets").symlink_to(DATA)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    assert any(cell.get("outputs") for cell in notebook.cells)
