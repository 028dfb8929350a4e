"""Who imports whom, what is documented, and what must not be there."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from likewise.audit_data import AuditData, missing
from likewise.loss import margin

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
SOURCES = sorted(SOURCE.rglob("*.py"))

HEAVY = {"torch", "scipy", "sklearn", "matplotlib", "pandas", "polars", "pyarrow", "numpy"}

HELP = """
import contextlib, runpy, sys
sys.argv = {}
with contextlib.suppress(SystemExit):
    runpy.run_module("likewise", run_name="__main__")
"""

TEXT = {".py", ".md", ".toml", ".txt", ".cff", ".yaml", ".yml", ".html", ".css", ".js", ".json", ""}

# Folders that exist on one machine only. No shell prompt, URL or relative path looks like this.
MACHINE_PATH = re.compile(r"(?<![\w.:/~$)}])/(?:home|root|Users|work|opt|tmp|mnt)/\w")


@pytest.mark.parametrize("module", ["likewise", "likewise.cli", "likewise.settings"])
def test_importing_the_surface_leaves_heavy_libraries_out(module: str) -> None:
    assert HEAVY.isdisjoint(loaded(f"import sys, {module}"))


@pytest.mark.parametrize("command", [(), ("audit",)])
def test_help_imports_none_of_the_libraries_that_take_long(command: tuple[str, ...]) -> None:
    found = loaded(HELP.format(["likewise", *command, "--help"]))
    assert "likewise.cli.app" in found
    assert found.isdisjoint(HEAVY | {"pydantic", "rich", "likewise.cli.demo"})


def loaded(code: str) -> set[str]:
    """Return the modules that some code imports."""
    command = [sys.executable, "-c", f"{code}\nprint(*sys.modules)"]
    return set(subprocess.check_output(command, text=True, cwd=ROOT).splitlines()[-1].split())


def test_the_test_run_checks_shapes_and_types_of_every_call() -> None:
    assert margin(np.zeros((3, 2)), np.zeros(3, dtype=np.int64)).shape == (3,)
    for function, *arguments in (
        (missing, np.zeros((2, 2))),
        (margin, np.zeros((3, 2)), np.zeros(4, dtype=np.int64)),
        (AuditData, np.zeros((2, 2), dtype=np.int64), np.array([0, 1])),
    ):
        with pytest.raises(TypeCheckError):
            function(*arguments)


def test_everything_public_says_what_it_is() -> None:
    silent = []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not ast.get_docstring(tree):
            silent.append(str(path))
        silent += [f"{path}: {name}" for name, node in public(tree) if not ast.get_docstring(node)]
    assert silent == []


def public(
    tree: ast.Module | ast.ClassDef,
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield public classes, functions and methods; an overriding method inherits its words."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        marks = {ast.unparse(mark).split("(")[0].split(".")[-1] for mark in node.decorator_list}
        if node.name.startswith("_") or marks & {"override", "overload", "setter"}:
            continue
        yield node.name, node
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{name}", inner) for name, inner in public(node))


def test_no_file_names_a_folder_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in repository_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATH.search(line) or f"{ROOT.parent}/" in line
    ]
    assert not found


def repository_files() -> list[Path]:
    """Return the text files that git tracks, or all of the source where there is no git."""
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT)
    names = listed.stdout.split("\0") if listed.returncode == 0 else []
    paths = [ROOT / name for name in names if name] or [*SOURCES, *ROOT.glob("docs/**/*.md")]
    return [path for path in paths if path.suffix in TEXT and path.is_file()]
