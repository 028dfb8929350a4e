"""The page: complete, in order, in one small file, and safe whatever the data hold."""

import math
import re
from html.parser import HTMLParser

import pytest

from likewise.report.html import to_html
from likewise.report.people import person
from likewise.report.redact import redact

SECTIONS = [
    *("verdict", "worst", "groups", "moved", "sure", "trust", "performance", "metric", "data"),
    *("method", "repeat"),
]
VOID = {"meta", "input", "br"}


class Reader(HTMLParser):
    """Reads a page as a browser would: elements, attributes, and the text people see."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.words, self.unbalanced = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.unbalanced.append(tag)

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def ids(self):
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


@pytest.fixture(scope="module")
def page(record):
    return Reader(to_html(record))


def test_the_sections_stand_in_the_order_in_which_people_ask(page):
    found = [a["id"] for tag, a in page.elements if tag == "section"]
    assert found == SECTIONS
    linked = [a["href"][1:] for tag, a in page.elements if tag == "a" and a["href"] != "#main"]
    assert linked == SECTIONS


def test_elements_are_balanced_and_ids_unique(page):
    assert page.unbalanced == []
    assert page.open == []
    assert len(page.ids()) == len(set(page.ids()))


def test_the_verdict_comes_first_with_its_tolerance_and_what_it_does_not_say(page):
    start = page.text.index("Evidence of unfairness The loss")
    assert start < page.text.index("What this does not say") < page.text.index("treated worst The")
    assert "tolerance δ = 1.25" in page.text


@pytest.mark.parametrize(
    "words",
    [
        "12.500 × the loss",
        "<=50K → becomes >50K",
        "few people",
        "relationship=Wife",
        "bootstrap-t",
        "Tail index 5.90",
        "Within reach, without any horizon, a search finds a loss ratio of 1.400",
        "100 instead of 50",
        "1 of 2 other choices tried end otherwise (fair metric first direction only: inconclusive",
        "any δ below 1.550 would be exceeded, too; from 1.760 on",
        "0.04 standard errors",
        "Loss ratio along free directions only (λ → ∞) 1.580",
        "Balanced accuracy 0.830 (0.820 to 0.840)",
        "area under the curve 0.940 0.620",
        "age missing 3",
        "likewise audit model.safetensors people.parquet --label income",
        "jackknife of 10 metric refits",
    ],
)
def test_it_answers(page, words):
    assert words in page.text


def test_other_tolerances_are_said_only_where_the_curve_has_ends(make):
    curve = make.record().delta_curve
    never = curve.model_copy(update={"unfair_below": 0.97, "tolerable_from": math.inf})
    assert "there would be no evidence at any δ.</p>" in to_html(make.record(delta_curve=never))
    unknown = curve.model_copy(update={"unfair_below": math.nan})
    assert "Another tolerance" not in to_html(make.record(delta_curve=unknown))


def test_it_never_calls_a_model_fair_or_compliant(page, bare, make):
    within = make.record(
        outcome="within_tolerance",
        tests={"loss_ratio": make.test(lower=1.0, upper=1.1, outcome="within_tolerance")},
    )
    for text in (page.text, Reader(to_html(bare)).text, Reader(to_html(within)).text):
        assert "complian" not in text.lower()
        allowed = {"fair metric", "fair distance"}
        found = set(re.findall(r"\bfair\b(?: \w+)?", text.lower()))
        assert found <= allowed


def test_a_result_with_little_in_it_makes_a_page_too(bare):
    page = Reader(to_html(bare))
    assert [a["id"] for tag, a in page.elements if tag == "section"] == SECTIONS
    assert "no protected trait" in page.text.lower()


def test_an_untrustworthy_result_says_so_beside_the_verdict(record):
    page = Reader(
        to_html(
            record.model_copy(update={"trustworthy": False, "reasons": ("9 people left bounds",)})
        )
    )
    assert "Do not use this result." in page.text
    assert page.text.index("9 people left bounds") < page.text.index("What this does not say")


def test_hostile_text_appears_as_text(hostile):
    page = Reader(to_html(hostile))
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]
    assert "img" not in {tag for tag, _ in page.elements}
    assert page.text.count("<script>alert('x')</script>") >= 8
    assert "{{ 7*7 }}🧨" in page.text
    assert "(10,000 characters)" in page.text


def test_nothing_is_asked_of_another_host(record):
    text = to_html(record)
    page = Reader(text)
    assert not [a for _, a in page.elements if "src" in a]
    assert all(a["href"].startswith("#") for _, a in page.elements if "href" in a)
    assert "url(" not in text
    assert "@import" not in text
    policy = next(a["content"] for _, a in page.elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_the_page_is_small_whatever_there_is_to_show(record, make):
    # Every list at a size no audit should reach, with long names.
    name = "n" * 300
    wide = {f"{name}{i}": i for i in range(2000)}
    moved = {key: value + 1 for key, value in wide.items()}
    huge = record.model_copy(
        update={
            "worst": tuple(
                make.person(i).model_copy(update={"before": wide, "after": moved})
                for i in range(10)
            ),
            "groups": record.groups * 500,
            "measures": tuple(
                m.model_copy(update={"group": f"{name}{i}"})
                for i in range(500)
                for m in record.measures
            ),
            "warnings": (name,) * 500,
            "metric": record.metric.model_copy(
                update={"directions": tuple({f"{name}{j}": 0.1 for j in range(10)} for _ in wide)}
            ),
            "data": record.data.model_copy(
                update={
                    "n": 200_000,
                    "features": tuple(wide),
                    "protected": {name: wide},
                    "notes": (name,) * 500,
                }
            ),
        }
    )
    assert len(to_html(huge).encode()) < 1_000_000


def test_redacted_pages_hold_no_value_of_a_person(record, make):
    secret = make.person(1).model_copy(
        update={
            "label": "SECRET-LABEL",
            "groups": {"sex": "SECRET-SEX"},
            "before": {"age": "SECRET-AGE", "job": "SECRET-JOB"},
            "after": {"age": "SECRET-NEW", "job": "SECRET-JOB"},
            "decision_before": "SECRET-NO",
            "decision_after": "SECRET-YES",
        }
    )
    redacted = redact(record.model_copy(update={"worst": (secret,)}))
    text = to_html(redacted)
    assert "SECRET" not in text + redacted.to_json()
    page = Reader(text)
    assert "values hidden" in page.text
    assert "age hidden hidden, moved" in page.text
    assert "hidden, another" in page.text


def test_a_result_without_numbers_makes_a_page_without_pictures_of_them(record):
    nothing = dict.fromkeys(
        ("estimate", "std_error", "statistic", "p_value", "lower_bound", "upper_bound"), math.nan
    )
    test = record.tests["loss_ratio"].model_copy(
        update=nothing | {"interval": (math.nan, math.nan), "outcome": "inconclusive"}
    )
    unknown = dict.fromkeys(("estimate", "lower", "upper", "p_adjusted"), math.nan)
    horizon = record.horizons[0].model_copy(
        update=dict.fromkeys(("loss_ratio", "lower_bound", "band_lower", "band_upper"), math.nan)
    )
    shown = record.model_copy(
        update={
            "tests": {"loss_ratio": test},
            "beside": (test,),
            "groups": tuple(group.model_copy(update=unknown) for group in record.groups),
            "horizons": (horizon, record.horizons[1]),
            "outcome": "inconclusive",
        }
    )
    page = to_html(shown)
    assert 'nan%"' not in page
    assert '"nan"' not in page


def test_a_card_and_a_printed_person_show_the_five_columns_that_moved_most(record):
    columns = {f"column {j} {'x' * 70}": float(j) for j in range(59)}
    moved = {name: 2 * value for name, value in columns.items()} | {"job": "cook"}
    case = record.worst[0].model_copy(update={"before": columns | {"job": "clerk"}, "after": moved})
    card = person(case)
    assert len(card.changed) == 5
    assert card.changed[0] == ("job", "clerk", "cook", "")
    assert card.left_out == 54  # of sixty, one stays where it is (zero), and is shown
    lines = str(case).splitlines()
    assert len(lines) == 8
    assert max(map(len, lines)) <= 80
    assert "  job: clerk → cook" in lines
    assert lines[-1] == "  … and 54 more columns"
