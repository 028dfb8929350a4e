"""An audit as JUnit XML: one test case for each test, and one for each group."""

from xml.etree import ElementTree

from likewise.record import GroupRecord, Record, TestRecord
from likewise.report.escaping import for_xml
from likewise.report.layout import number, p_value
from likewise.report.verdict_words import TITLES, sentence
from likewise.report.words import summary


def to_junit(record: Record) -> str:
    """Return the XML: what the audit itself accuses fails, and an untrustworthy one is an error."""
    suite = ElementTree.Element("testsuite", name="likewise", timestamp=record.created[:19])
    total = record.seconds.get("total", 0.0)
    for test in record.tests.values():
        _test_case(suite, test, record)
    for group in record.judged_groups():
        _group_case(suite, group, record)
    if not record.trustworthy:
        case = ElementTree.SubElement(
            suite, "testcase", classname="likewise", name="trustworthy", time="0"
        )
        ElementTree.SubElement(case, "error", message=for_xml("; ".join(record.reasons)))
    cases = suite.findall("testcase")
    for name, mark in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(mark) is not None for case in cases)))
    suite.set("tests", str(len(cases)))
    suite.set("time", f"{total:.3f}")
    ElementTree.SubElement(suite, "system-out").text = for_xml(summary(record))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(
        suites, encoding="unicode"
    )


def _test_case(suite: ElementTree.Element, test: TestRecord, record: Record) -> None:
    decides = " (decides)" if test.test == record.decided_by.test else ""
    name = TITLES.get(test.test, test.test) + decides
    case = ElementTree.SubElement(
        suite, "testcase", classname="likewise.tests", name=for_xml(name), time="0"
    )
    if record.accused_by(test):
        failure = ElementTree.SubElement(case, "failure", message=for_xml(sentence(test)))
        failure.set("type", "EvidenceOfUnfairness")


def _group_case(suite: ElementTree.Element, group: GroupRecord, record: Record) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=for_xml(f"likewise.groups.{group.trait}"),
        name=for_xml(f"{group.trait}: {group.group}"),
        time="0",
    )
    said = (
        f"ratio {number(group.estimate)} ({number(group.lower)} to {number(group.upper)}), "
        f"tolerance {record.settings.delta:g}, adjusted p {p_value(group.p_adjusted)}, n {group.n}"
    )
    if group.rejected:
        failure = ElementTree.SubElement(case, "failure", message=for_xml(said))
        failure.set("type", "EvidenceOfUnfairness")
    elif group.small:
        ElementTree.SubElement(case, "skipped", message=for_xml(f"too few people: {said}"))
