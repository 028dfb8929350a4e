"""The page in a real browser: no error, no request, works by hand, by eye and by ear."""

import functools
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import likewise
from likewise.report.html import to_html
from likewise.settings import Settings

AXE = "axe-core@4.11.0"
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}

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


def rows(page):
    """Return the row numbers of the cards that can be seen, in their order."""
    cards = page.locator(".person:visible").all()
    return [int(card.get_attribute("data-row")) for card in cards]


def test_cards_are_sorted_by_what_one_asks_for(visit, record):
    page = visit(to_html(record))
    assert rows(page) == [case.row for case in record.worst]
    page.select_option("#sort", "row")
    assert rows(page) == sorted(case.row for case in record.worst)
    page.select_option("#sort", "distance")
    far = sorted(record.worst, key=lambda case: -case.fair_distance)
    assert rows(page) == [case.row for case in far]


def test_cards_are_filtered_by_group_decision_and_words(visit, record):
    page = visit(to_html(record))
    page.select_option("#group", "Female")
    assert rows(page) == [c.row for c in record.worst if c.groups["sex"] == "Female"]
    page.select_option("#group", "")
    page.check("#flipped")
    flipped = [c.row for c in record.worst if c.decision_before != c.decision_after]
    assert rows(page) == flipped
    page.uncheck("#flipped")
    page.fill("#find", "row 107")
    assert rows(page) == [107]
    assert page.inner_text("#found") == "1 of 10 shown"


def test_the_page_works_by_keyboard(visit, record):
    page = visit(to_html(record))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#sort")
    page.keyboard.press("ArrowDown")
    assert page.input_value("#sort") == "drop"
    page.focus(".person details summary")
    page.keyboard.press("Enter")
    assert page.locator(".person details[open]").count() == 1


def test_without_scripts_the_page_is_complete(visit, record):
    page = visit(to_html(record), java_script_enabled=False)
    assert page.locator(".person:visible").count() == len(record.worst)
    assert page.locator("#controls:visible").count() == 0


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("kind", ["full", "bare", "hostile"])
def test_nothing_is_wider_than_the_screen(visit, record, bare, hostile, viewport, kind):
    chosen = {"full": record, "bare": bare, "hostile": hostile}[kind]
    page = visit(to_html(chosen), viewport=viewport)
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_hostile_text_does_not_run(visit, hostile):
    page = visit(to_html(hostile))
    seen = []
    page.on("dialog", lambda dialog: (seen.append(dialog.message), dialog.dismiss()))
    assert page.locator("img, iframe, object").count() == 0
    assert "<script>alert('x')</script>" in page.inner_text(".person")
    page.select_option("#group", index=1)
    assert page.locator(".person:visible").count() == 1
    assert seen == []


def test_dark_is_dark_and_print_is_white(visit, record):
    page = visit(to_html(record), color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(21, 24, 27)"
    page.emulate_media(media="print", color_scheme="light")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.locator("nav:visible").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["full", "bare", "untrusted"])
def test_nothing_keeps_people_with_a_screen_reader_out(visit, record, bare, scheme, kind):
    untrusted = record.model_copy(update={"trustworthy": False, "reasons": ("it diverged",)})
    chosen = {"full": record, "bare": bare, "untrusted": untrusted}[kind]
    page = visit(to_html(chosen), color_scheme=scheme)
    page.evaluate(axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    told = [
        f"{rule['id']} ({rule['impact']}): {rule['nodes'][0]['html'][:120]} "
        f"{rule['nodes'][0].get('failureSummary', '')}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical", "moderate")
    ]
    assert told == []


def test_worst_cases_of_a_column_transformer_are_in_original_columns(visit):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"pay": 100 * rng.normal(size=240), "age": rng.integers(20, 70, 240)})
    frame["job"] = rng.choice(["clerk", "cook", "smith"], 240)
    frame["sex"] = rng.choice(["f", "m"], 240)
    frame["y"] = (frame.pay / 100 + (frame.sex == "m") + rng.normal(size=240) > 0.5).astype(int)
    steps = make_column_transformer(
        (StandardScaler(), ["pay", "age"]), (OneHotEncoder(), ["job", "sex"])
    )
    inputs = frame.drop(columns="y")
    pipeline = make_pipeline(steps, LogisticRegression()).fit(inputs[:120], frame["y"][:120])
    settings = Settings(
        checks="core",
        map="reach",
        columns={"label": "y", "protected": ("sex",)},
        metric={"placebos": 0, "groups": 2},
    )
    result = likewise.audit(pipeline, frame[120:], settings=settings)
    page = visit(result.to_html())
    cards = page.locator(".person")
    assert cards.count() == len(result.record.worst) > 0
    for number in range(cards.count()):
        card = cards.nth(number)
        moved = card.locator("tbody th").all_inner_texts()
        kept = card.locator("dl.same dt").all_text_contents()
        assert set(moved) <= {"pay", "age", "job", "sex"}
        assert sorted([*moved, *kept]) == ["age", "job", "pay", "sex"]
        row = inputs.iloc[120 + int(card.get_attribute("data-row"))]
        shown = dict(
            zip(moved, card.locator("tbody td:nth-child(2)").all_inner_texts(), strict=True)
        )
        assert shown.get("sex", row["sex"]) == row["sex"]
        assert shown.get("job", row["job"]) == row["job"]
    assert "onehotencoder__" not in " ".join(cards.all_text_contents())
