"""What the documentation says must be so: examples run, links lead somewhere, files exist."""

import ast
import doctest
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import likewise
from likewise.cli.app import COMMANDS, app, command

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "likewise"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

# Includes stand in "{ .python }", which keeps formatters away from them.
SNIPPET = re.compile(
    r"^(?:``` ?(?:{ \.)?(python|sh|text)(?: })?\n(.*?)^```|## [^\n]*)$", re.MULTILINE | re.DOTALL
)
INCLUDE = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)
NEEDS = re.compile(r"^# Needs the extra (\w+)", re.MULTILINE)
MODULES = {
    "plots": "matplotlib",
    "boosted": "xgboost",
    "skops": "skops",
    "torch": "torch",
    "mlflow": "mlflow",
}
"""What tells whether an extra is installed."""

WITH_SNIPPETS = [
    page
    for page in [ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if re.search(r"^``` ?(?:{ \.)?(?:python|sh)", page.read_text(encoding="utf-8"), re.MULTILINE)
]

WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in ROOT.glob("src/**/*.py")
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings_give_what_they_show(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_name_what_exists_in_the_words_of_the_field(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    assert not [t for t in links if "://" not in t and not (page.parent / t).exists()]
    sources = re.findall(r"`([\w/]+\.py)`", text)
    assert not [n for n in sources if not any((home / n).exists() for home in (ROOT, PACKAGE))]
    banned = (ROOT / "tests" / "banned_words.txt").read_text(encoding="utf-8").splitlines()
    assert not [words for words in banned if words in " ".join(text.lower().split())]
    address = re.compile(r"^\[[\w-]+\]: http")
    assert not [line for line in text.splitlines() if len(line) > 120 and not address.match(line)]


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table and the model that pages speak of, and the files that earlier commands wrote."""
    folder = tmp_path_factory.mktemp("loans")
    (folder / "examples").symlink_to(ROOT / "examples")
    subprocess.run([sys.executable, "examples/loans.py"], cwd=folder, check=True)
    return folder


RUNNER = """
import json, pathlib, subprocess, sys
names, said = {"__name__": "__main__"}, None
for language, code in json.loads(pathlib.Path("snippets.json").read_text("utf-8")):
    if language == "python":
        exec(compile(code, "snippet", "exec"), names)
    elif language == "sh":
        done = subprocess.run(["bash", "-ec", code], stdout=subprocess.PIPE, text=True)
        said = done.stdout
        if done.returncode not in (0, 1, 3):
            sys.exit(f"{done.returncode}: {code}")
    elif language == "text" and said is not None and code not in said:
        sys.exit(f"The page shows\\n{code}but the command prints\\n{said}")
    elif not language:
        said = None
"""
"""Runs a page from top to bottom; 0, 1 and 3 are verdicts, anything else is an error.

A block of text after a command of the same section is part of what the command prints.
"""


def test_options_that_messages_name_exist() -> None:
    built = [typer.main.get_command(app), *map(command, COMMANDS)]
    known = {name for one in built for parameter in one.params for name in parameter.opts}
    known |= {"--help"}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", node.value))
                assert named <= known, f"{path}: {node.value}"


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=lambda p: str(p.relative_to(ROOT)))
def test_snippets_on_a_page_run_and_print_what_it_shows(
    page: Path, loans: Path, tmp_path: Path
) -> None:
    run_snippets(SNIPPET.findall(page.read_text(encoding="utf-8")), loans, tmp_path)


@pytest.mark.slow
def test_the_readme_shows_what_its_commands_print(loans: Path, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    snippets = SNIPPET.findall(text[text.index("## Two questions") :])
    commands = [(language, code) for language, code in snippets if language != "python"]
    assert [language for language, _ in commands[:5]] == ["", "sh", "text", "sh", "text"]
    run_snippets(commands, loans, tmp_path)


@pytest.mark.slow
def test_the_readme_shows_what_the_demo_prints(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "likewise", "demo"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for page in ("README.md", "docs/how-it-works.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        (block,) = (code for _, code in SNIPPET.findall(text) if "women → men" in code)
        absent = [line for line in block.splitlines() if line not in done.stdout.splitlines()]
        assert not absent


def run_snippets(found: list[tuple[str, str]], loans: Path, tmp_path: Path) -> None:
    """Run the snippets of a page in their order, in a copy of the folder of loans."""
    shutil.copytree(loans, tmp_path, symlinks=True, dirs_exist_ok=True)
    snippets = []
    for language, code in found:
        extra = NEEDS.search(code)
        if extra is None or importlib.util.find_spec(MODULES[extra[1]]):
            code = INCLUDE.sub(lambda match: (ROOT / match[1]).read_text("utf-8"), code)
            snippets.append((language, code))
    (tmp_path / "snippets.json").write_text(json.dumps(snippets), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ
        | {"PATH": path, "MPLBACKEND": "Agg", "PYTHONWARNINGS": "ignore", "COLUMNS": "80"},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_the_pages_are_short_and_in_the_contents() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130
    pages = list(ROOT.glob("docs/**/*.md"))
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 20_000
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert not [p for p in pages if f": {p.relative_to(ROOT / 'docs')}" not in contents]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings", reason="the docs extra is not installed")
    pytest.importorskip("material", reason="the docs extra is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    # Formulas are written as MathML, and no page loads anything from another host.
    pages = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert "<math" in pages[tmp_path / "methods.html"]
    reference = pages[tmp_path / "reference" / "api.html"]
    assert not [name for name in likewise.__all__ if name not in reference]
    assert "--may-matter" in pages[tmp_path / "reference" / "cli.html"]
    assert (tmp_path / "reference" / "result.schema.json").stat().st_size > 1000
    loaded = re.compile(r"<(?:script|img|link)[^>]+(?:src|href)=\"https?://[^\"]*", re.IGNORECASE)
    assert not [found for text in pages.values() for found in loaded.findall(text)]
