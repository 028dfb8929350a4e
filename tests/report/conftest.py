"""Sample records, and pages in a real browser."""

import shutil

import pytest

from sample_records import SAMPLES

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
DESK = {"width": 1280, "height": 900}


@pytest.fixture(params=list(SAMPLES))
def sample(request):
    """Every sample record, one after another."""
    return SAMPLES[request.param]()


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium; skips where it is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Open a page, and fail if it complains or asks anyone for anything."""
    complaints, contexts = [], []

    def open_page(html, *, viewport=DESK, **options):
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport=viewport, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: request.url == path.as_uri() or complaints.append(request.url),
        )
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
