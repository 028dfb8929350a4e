"""The notebooks run from top to bottom, and what is stored in them is what they give."""

import os
import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))


def printed(notebook) -> list[str]:
    """Return what the cells print, without digits: other machines round otherwise."""
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    return [re.sub(r"[\d.,]+", "#", out.text) for out in outputs if out.output_type == "stream"]


def test_there_are_two_with_their_outputs():
    assert [path.stem for path in NOTEBOOKS] == ["audit", "paper_test"]
    for path in NOTEBOOKS:
        assert path.stat().st_size < 100_000
        code = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
        kinds = {kind for cell in code for out in cell.outputs for kind in out.get("data", ())}
        assert "image/png" in kinds
    card = NOTEBOOKS[0].read_text("utf-8")
    assert "likewise-card" in card
    assert "Evidence of unfairness by group" in card


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_gives_what_is_stored(path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src")]))
    stored = nbformat.read(path, 4)
    fresh = nbformat.read(path, 4)
    place = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(fresh, timeout=120, kernel_name="python3", resources=place).execute()
    assert printed(fresh) == printed(stored)
