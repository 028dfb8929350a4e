"""Typed for users: the code of README, docs and notebooks passes two type checkers."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
PYTHON = re.compile(r"^``` ?(?:{ \.)?python(?: })?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INCLUDE = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)
GIVEN = """
from typing import Any
import pandas as pd
import likewise
def given() -> Any: ...
model, metric, x, y = given(), given(), given(), given()
people: pd.DataFrame = given()
reference: pd.DataFrame = given()
factors: list[str] = given()
"""
"""What README's lines speak of."""

PYPROJECT = f"""
[tool.mypy]
mypy_path = {str(ROOT / "src")!r}
check_untyped_defs = true
disable_error_code = ["import-untyped", "import-not-found"]
allow_redefinition = true
local_partial_types = true
[[tool.mypy.overrides]]
module = "likewise.*"
follow_imports = "silent"
[tool.basedpyright]
include = ["pages"]
extraPaths = [{str(ROOT / "src")!r}]
typeCheckingMode = "basic"
reportMissingImports = false
reportMissingModuleSource = false
reportMissingTypeStubs = false
reportRedeclaration = false
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """One module a page or notebook, with all of its code."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "pages").mkdir()
    for page in PAGES:
        code = "\n".join(PYTHON.findall(page.read_text("utf-8")))
        code = INCLUDE.sub(lambda match: (ROOT / match[1]).read_text("utf-8"), code)
        if code:
            name = page.stem.replace("-", "_").lower()
            given = GIVEN if page.stem == "README" else "import likewise\n"
            (folder / "pages" / f"{name}.py").write_text(given + code, "utf-8")
    for notebook in ROOT.glob("docs/notebooks/*.ipynb"):
        cells = json.loads(notebook.read_text("utf-8"))["cells"]
        code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        (folder / "pages" / f"notebook_{notebook.stem}.py").write_text(code, "utf-8")
    (folder / "pyproject.toml").write_text(PYPROJECT, "utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_code_that_people_copy_passes(checker, pages):
    pytest.importorskip(checker)
    command = [sys.executable, "-m", checker, *(["pages"] if checker == "mypy" else [])]
    done = subprocess.run(command, cwd=pages, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
