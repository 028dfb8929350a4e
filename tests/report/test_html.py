"""The report as a web page: in order, escaped, small, closed, and true to the record."""

import base64
import hashlib
import html
import re
from html.parser import HTMLParser

import pytest

import sample_records as samples
from likewise.report.html import to_card, to_html


class Page(HTMLParser):
    """Reads a page: its text by element, and whether every element is closed."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "br", "img", "link", "input", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += [] if "style" in self.open else [data]

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def words(source):
    return re.sub(r"\s+", " ", "".join(Page(source).text).replace("\u00a0", " "))


def test_every_sample_is_a_closed_small_page_with_a_dot_for_every_comparison(sample):
    source = to_html(sample)
    page = Page(source)
    assert page.open == []
    assert len(source.encode()) < 1_000_000
    for tag in ("script", "img", "iframe", "object", "embed", "link", "form"):
        assert page.all(tag) == []
    assert all("style" not in a and not any(k.startswith("on") for k in a) for _, a in page.tags)
    assert all(a.get("href", "#").startswith("#") for a in page.all("a"))
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    forest = re.search('<table class="plots forest">.*?</table>', source, re.DOTALL)[0]
    rows = [row for row in forest.split("<tr") if '<td class="plot">' in row]
    part = sample.matched_pairs
    many = len(part.comparisons) if part is not None else len(sample.tests) + len(sample.groups)
    assert len(rows) == min(many, 24)
    assert all("<circle" in row or "—" in row for row in rows)


def test_a_notebook_shows_verdict_plot_groups_and_control(sample):
    source = to_card(sample)
    assert Page(source).open == []
    assert len(source) < 60_000
    assert "<svg" in source
    assert all(line.startswith(".likewise-card") for line in re.findall(r"^\.[^{]*", source, re.M))
    if sample.matched_pairs is not None and sample.matched_pairs.comparisons[0].control:
        assert "Negative control" in source


def test_the_policy_allows_the_style_of_the_page_and_nothing_else():
    source = to_html(samples.evidence())
    style = re.search("<style>(.*?)</style>", source, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = html.unescape(re.search('Content-Security-Policy" content="(.*?)"', source)[1])
    allowed = f"default-src 'none'; style-src 'sha256-{digest}'"
    assert policy == f"{allowed}; base-uri 'none'; form-action 'none'"


def test_the_report_has_its_order():
    source = to_html(samples.evidence())
    order = ["verdict", "drivers", "people", "spread", "balance", "control", "sensitivity"]
    order += ["groups", "method", "repeat"]
    places = [source.index(f'aria-labelledby="{name}"') for name in order]
    assert places == sorted(places)
    assert source.index("forest") < source.index('aria-labelledby="drivers"')
    flow = to_html(samples.flow())
    assert flow.index('id="spread"') < flow.index('id="control"')
    assert "<details>" in source
    assert "<details open" not in source


def test_the_first_section_has_verdict_group_how_sure_next_step_and_selection_rates():
    first, _, rest = words(to_html(samples.evidence())).partition("Driven by")
    for said in (
        "Evidence of unfairness by sex",
        "The model favours people with sex = Male over comparable people with sex = Female",
        "95 % CI 2.06–2.36",
        "Next: look for a fairer model that is as accurate (likewise improve).",
        "selected, as they are: Female 11.8 %, Male 30.1 %; impact ratio 0.392",
        "Shaded: within the limits 0.8 to 1.25.",
    ):
        assert said in first
    for field in ("chosen by", "Reason for this choice", "Purpose of the model", "Reviewed by"):
        assert field in rest
    assert "Model versionmodel.safetensors, sha256 abababababab" in rest
    assert "evidence" not in words(to_html(samples.invalid()).split("</section>")[0])


def test_dots_stand_where_their_numbers_are_on_one_log_axis():
    forest = to_html(samples.evidence()).split("</section>")[0]
    rows = [row for row in forest.split("<tr") if '<td class="plot">' in row]
    places = [float(re.search(r'circle cx="([\d.]+)%', row)[1]) for row in rows]
    marks = [float(x) for x in re.findall(r'line x1="([\d.]+)%" y1="0"', rows[0])]
    ratios = [row.ratio for row in samples.evidence().matched_pairs.comparisons]
    assert sorted(range(4), key=places.__getitem__) == sorted(range(4), key=ratios.__getitem__)
    low, one, high = marks
    assert one - low == pytest.approx(high - one, abs=0.02)
    assert places[0] > high
    assert places[1] < low
    assert one < places[2] < high


def test_a_card_has_one_definition_of_every_number():
    page = words(to_html(samples.evidence()))
    assert "4 people" in page
    assert "Percentages are the model’s probability of '>50K', then its decision." in page
    card = page[page.index("Row 1,234 · Female · true outcome") : page.index("Row 1,241")]
    assert "As they are18.0 % → '<=50K'" in card
    assert "Columns from the other group (Male)78.0 % → '>50K'" in card
    assert "marital-statusNever-marriedDivorcedMarried-civ-spouse" in card
    assert "race" not in card  # the same for both members
    assert "The same for all three: age 39, education-num 13, hours-per-week 40" in card
    assert "All comparisons of this person: '>50K' 15.0 % → 85.0 % of the time." in card
    first, second = map(samples.compared, range(2))
    other = {"outcome": "<=50K", "person": second.person | {"race": "Black"}}
    people = (first, second.model_copy(update=other))
    page = words(to_html(samples.changed(samples.evidence(), people=people)))
    assert "the model’s probability of the decision in its last line, then its decision." in page
    assert "relationshipWifeWifeHusbandraceBlackWhiteWhite" in page
    page = words(to_html(samples.flow()))
    card = page[page.index("Row 1,007") : page.index("Row 907")]
    assert "educationHS-gradMasters" in card
    assert "note" not in card
    assert "Loss 0.190 → 2.38, 12.5 times." in card


def test_hostile_names_stay_text():
    for source in (to_html(samples.hostile()), to_card(samples.hostile())):
        page = Page(source)
        assert page.all("script") == page.all("img") == []
        assert "<script>alert('x')</script>" in "".join(page.text)
        assert ">49" not in "".join(page.text)
