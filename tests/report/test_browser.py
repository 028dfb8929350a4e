"""The page in a real browser: no error, no request, readable by eye, on paper and by ear."""

import functools
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

import sample_records as samples
from likewise.report.html import to_card, to_html

AXE = "axe-core@4.11.0"
WIDTHS = {"phone": 390, "tablet": 720, "desk": 1280}

pytestmark = pytest.mark.browser


@functools.cache
def axe() -> str:
    """Return the source of axe-core, from the npm registry, kept on disk."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "likewise" / "tests"
    script = cache / f"{AXE}.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("axe-core is not here, and there is no npm to fetch it")
        cache.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(
            [npm, "pack", AXE, "--silent"], cwd=cache, capture_output=True, text=True, timeout=120
        )
        if fetched.returncode:
            pytest.skip(f"axe-core cannot be fetched: {fetched.stderr.strip()[:200]}")
        package = cache / fetched.stdout.strip().splitlines()[-1]
        with tarfile.open(package) as archive:
            member = archive.extractfile("package/axe.min.js")
            assert member is not None
            script.write_bytes(member.read())
        package.unlink()
    return script.read_text(encoding="utf-8")


SPLIT = """
[...document.querySelectorAll('.person td, .person th, h1, .plots tbody th')].flatMap(cell => {
  const found = [];
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    for (const word of node.data.matchAll(/[A-Za-z]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
      if (lines.size > 1) found.push(word[0]);
    }
  return found;
})
"""
"""The words of titles, cards and plots that are broken over two lines."""


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize(
    "kind", ["evidence", "flow", "many", "three groups", "invalid", "hostile", "hostile flow"]
)
def test_a_page_fits_its_screen_with_every_dot_in_sight_and_no_word_split(visit, kind, width):
    page = visit(to_html(samples.SAMPLES[kind]()), viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert len(page.screenshot(full_page=True)) > 20_000
    if kind in ("invalid", "hostile", "hostile flow"):
        return
    rows = page.locator(".forest tbody tr:not(.heading)")
    assert rows.count() > 1
    for k in range(rows.count()):
        dot = rows.nth(k).locator("circle.dot").bounding_box()
        label = rows.nth(k).locator("th").bounding_box()
        assert 0 <= dot["x"] <= width - dot["width"]
        assert dot["width"] > 8
        assert label["y"] - 1 <= dot["y"] <= label["y"] + 250
    assert page.evaluate(SPLIT) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_first_screen_has_verdict_group_how_sure_and_next_step(visit, width):
    height = 844 if width == 390 else 900
    page = visit(to_html(samples.evidence()), viewport={"width": width, "height": height})
    seen = page.evaluate(
        "[...document.querySelectorAll('h1, .about, .sentence, .next, .heading')]"
        f".filter(e => e.getBoundingClientRect().bottom < {height}).map(e => e.innerText).join('|')"
    ).replace("\u00a0", " ")
    who = "favours people with sex = Male over comparable people with sex = Female"
    for said in ("Evidence of unfairness", who, "95 % CI", "Next", "impact ratio"):
        assert said in seen


@pytest.mark.parametrize("kind", ["evidence", "flow", "many", "regression", "hostile"])
def test_on_paper_it_has_six_pages_at_most_and_no_word_is_split(visit, kind, tmp_path):
    page = visit(to_html(samples.SAMPLES[kind]()))
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    data = (tmp_path / "report.pdf").read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", data)) <= 6
    if kind == "hostile":
        return
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is not installed (apt-get install poppler-utils)")
    printed = subprocess.run(
        ["pdftotext", "-layout", tmp_path / "report.pdf", "-"], capture_output=True, text=True
    ).stdout
    shown = page.evaluate("document.querySelector('main').innerText")
    known = set(re.findall(r"[^\W\d_]+", shown)) | {"Fairness", "audit", "likewise"}
    strange = [word for word in re.findall(r"[^\W\d_]{2,}", printed) if word not in known]
    assert [word for word in strange if word not in page.content()] == []


def test_dark_is_dark_and_print_is_white(visit):
    page = visit(to_html(samples.evidence()), color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(21, 24, 28)"
    page.emulate_media(media="print", color_scheme="light")
    assert page.evaluate(background) == "rgb(255, 255, 255)"


def test_the_notebook_card_fits_a_cell(visit):
    page = visit(f"<body>{to_card(samples.evidence())}</body>")
    assert page.locator(".likewise-card circle.dot").count() == 6
    assert page.locator(".likewise-card").bounding_box()["height"] < 600


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["evidence", "flow", "within", "invalid"])
def test_nothing_keeps_people_with_a_screen_reader_out(visit, scheme, kind):
    source = to_html(samples.SAMPLES[kind]())
    # The page's own policy runs no script, not even the one that checks it.
    source = re.sub("<meta http-equiv.*?>", "", source)
    page = visit(source, color_scheme=scheme)
    page.evaluate(axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    told = [
        f"{rule['id']} ({rule['impact']}): {rule['nodes'][0]['html'][:120]} "
        f"{rule['nodes'][0].get('failureSummary', '')}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical", "moderate")
    ]
    assert told == []
