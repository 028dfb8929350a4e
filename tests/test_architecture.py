"""The shape of the house: who imports whom, what stays small, what must not be there."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import likewise

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "likewise"
SOURCES = sorted(SOURCE.rglob("*.py"))

LONG_FILES: frozenset[str] = frozenset(
    # A map and what it is bound to, with all that checks may ask of it.
    ("likewise/maps/flow.py",)
)
"""Files that may exceed 300 lines; each needs a reason beside its name."""

SAME_NAME = {
    # A command, and what it calls.
    *("monitor", "plan"),
}
"""Modules and public classes that share their name with another. Take names out; add none."""

HEAVY = {"torch", "scipy", "sklearn", "matplotlib", "pandas", "polars", "pyarrow", "numpy"}

TEXT = {".py", ".md", ".toml", ".txt", ".cff", ".yaml", ".yml", ".html", ".css", ".js", ".json", ""}

# Folders that exist on one machine only. No shell prompt, URL or relative path looks like this.
MACHINE_PATH = re.compile(r"(?<![\w.:/~$)}])/(?:home|root|Users|work|opt|tmp|mnt)/\w")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rooms_import_only_what_they_may() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [command, "--no-cache", "--no-logo"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", ["likewise", "likewise.cli", "likewise.settings"])
def test_importing_the_surface_leaves_heavy_libraries_out(module: str) -> None:
    loaded = python(f"import sys, {module}; print(*sys.modules)").split()
    assert HEAVY.isdisjoint(loaded)


def test_asking_for_help_imports_no_heavy_library() -> None:
    loaded = python(
        "import runpy, sys\n"
        "sys.argv = ['likewise', '--help']\n"
        "try:\n"
        "    runpy.run_module('likewise', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "print('\\n' + ' '.join(sys.modules))\n"
    ).splitlines()[-1]
    assert HEAVY.isdisjoint(loaded.split())


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_source_file_is_small_and_not_deep(path: Path) -> None:
    name = path.relative_to(SOURCE)
    assert len(name.parts) <= 3
    assert name.stem not in {"utils", "helpers", "common", "misc"}
    if str(name) not in LONG_FILES:
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= 300, f"{lines} lines: look for the second idea"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_everything_public_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = [name for name, node in public(tree) if not ast.get_docstring(node)]
    assert ast.get_docstring(tree), "the module has no docstring"
    assert not silent


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


def test_every_public_name_is_there_and_no_module_hides_it() -> None:
    # A lazy package would hand out a module in place of the function it has the name of.
    assert likewise.__all__
    for name in likewise.__all__:
        assert getattr(likewise, name) is not None
        assert not (PACKAGE / f"{name}.py").exists()


def test_no_two_modules_or_public_classes_have_one_name() -> None:
    stems = [path.stem for path in SOURCES if path.stem not in {"__init__", "__main__"}]
    classes = [
        node.name
        for path in SOURCES
        for _, node in public(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    twice = {name for names in (stems, classes) for name in names if names.count(name) > 1}
    assert twice <= SAME_NAME


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
