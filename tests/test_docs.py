"""What the documentation says must be so: examples run, links lead somewhere, files exist."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import likewise

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "likewise"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

# Whole examples stand in "{ .python }", which keeps formatters away from their include line.
SNIPPET = re.compile(r"^``` ?(?:{ \.)?(python|sh)(?: })?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INCLUDE = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)
SLOW = {"any-model.md", "adult.md", "compas.md", "own_csv.md"}

WITH_SNIPPETS = [
    pytest.param(page, marks=[pytest.mark.slow] if page.name in SLOW else [])
    for page in sorted(ROOT.glob("docs/**/*.md"))
    if SNIPPET.search(page.read_text(encoding="utf-8"))
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
def test_links_to_other_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_source_files_named_on_a_page_exist(page: Path) -> None:
    named = re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8"))
    homes = (ROOT, PACKAGE, PACKAGE / "inference")
    assert not [n for n in named if not any((home / n).exists() for home in homes)]


@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=lambda p: str(p.relative_to(ROOT)))
def test_snippets_on_a_page_run_in_their_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, object] = {"__name__": "__main__"}
    for language, code in SNIPPET.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            run_python(INCLUDE.sub(lambda match: (ROOT / match[1]).read_text("utf-8"), code), names)
        else:
            done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
            # One is a verdict, evidence of unfairness; anything above is an error.
            assert done.returncode in (0, 1), done.stderr
            assert "Traceback" not in done.stderr


def run_python(code: str, names: dict[str, object]) -> None:
    """Run a snippet; where the data of an example cannot be had, skip."""
    from likewise.errors import InvalidFile

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(code, "snippet", "exec"), names)
    except InvalidFile as error:
        pytest.skip(f"the data of this example are not here: {error}")


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
    assert "<math" in pages[tmp_path / "statisticians.html"]
    loaded = re.compile(r"<(?:script|img|link)[^>]+(?:src|href)=\"https?://[^\"]*", re.IGNORECASE)
    assert not [found for text in pages.values() for found in loaded.findall(text)]


def test_every_public_name_is_on_the_page_of_the_api() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = {name.rpartition(".")[2]: name for name in re.findall(r"^::: ([\w.]+)$", page, re.M)}
    assert not set(likewise.__all__) - set(shown)
    # The page may name the file that a thing is in; it has to be that thing.
    for name in likewise.__all__:
        assert pkgutil.resolve_name(shown[name]) is getattr(likewise, name)


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")]
    assert not [page for page in pages if f": {page}" not in contents]
