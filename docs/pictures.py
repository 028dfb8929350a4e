"""Makes the pictures of the pages from a result: `python docs/pictures.py demo/result.json`.

Needs the extra `dev` and Chromium. The report is opened as a reader would open it.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from likewise.record import Record
from likewise.report.html import to_html

HERE = Path(__file__).parent / "images"
SHOTS = {"report.png": (900, 640)}
"""Pictures by name: width and height of the window."""

NUMBERS = """
document.querySelectorAll('h1, h2').forEach((title, i) => {
  const mark = document.createElement('b');
  mark.textContent = i + 1;
  mark.style.cssText = 'background:#1a5fb4;color:#fff;border-radius:1em;padding:0 .45em;'
    + 'margin-right:.4em;font-size:16px;vertical-align:middle';
  title.prepend(mark);
});
"""
"""Puts a number before every title, for the page that explains the report."""


def main(result: Path) -> None:
    """Write the first screen of the result's report, and its first sections with numbers."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tools:
        page = Path(folder) / "report.html"
        page.write_text(to_html(Record.read(result)), encoding="utf-8")
        place = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = tools.chromium.launch(executable_path=place, args=["--no-sandbox"])
        for name, (width, height) in SHOTS.items():
            shot = browser.new_page(viewport={"width": width, "height": height})
            shot.goto(page.as_uri())
            shot.screenshot(path=HERE / name)
        whole = browser.new_page(viewport={"width": 900, "height": 900})
        whole.goto(page.as_uri())
        whole.evaluate(NUMBERS)
        clip = {"x": 0, "y": 0, "width": 900, "height": 1565}
        whole.screenshot(path=HERE / "sections.png", full_page=True, clip=clip)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
