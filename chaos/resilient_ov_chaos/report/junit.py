"""The run as JUnit XML: one case for each fault and operation, measured numbers as properties.

Pure. UNKNOWN is an error, not a skip: a run that could not have failed is not green.
"""

import math
from xml.etree import ElementTree as Xml

from resilient_ov_chaos.outcome import OPERATIONS, Case, Outcome, cases
from resilient_ov_chaos.suite import Aborted, Skipped
from resilient_ov_chaos.verdict import Status


def junit(outcome: Outcome) -> bytes:
    """Return the document."""
    root = Xml.Element("testsuites", name="resilient-ov chaos")
    suite = Xml.SubElement(root, "testsuite", name="chaos", timestamp=outcome.began_at)
    told = Xml.SubElement(suite, "properties")
    for name, value in outcome.facts.items():
        Xml.SubElement(told, "property", name=name, value=value)
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for scenario in outcome.scenarios:
        if isinstance(scenario, Skipped | Aborted):
            word = "skipped" if isinstance(scenario, Skipped) else "error"
            counts["skipped" if word == "skipped" else "errors"] += len(OPERATIONS)
            counts["tests"] += len(OPERATIONS)
            for operation in OPERATIONS:
                case = _element(suite, scenario.fault.name, operation, 0.0)
                Xml.SubElement(case, word, message=scenario.reason)
            continue
        for each in cases(scenario):
            counts["tests"] += 1
            counts["failures"] += each.status is Status.RED
            counts["errors"] += each.status is Status.UNKNOWN
            _told(suite, each)
    for name, count in counts.items():
        suite.set(name, str(count))
    suite.set("time", f"{outcome.took_s:.1f}")
    Xml.indent(root)
    document: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _told(suite: Xml.Element, case: Case) -> None:
    element = _element(suite, case.fault.name, case.operation, case.took_s)
    properties = Xml.SubElement(element, "properties")
    for name, value in case.measured.items():
        if not math.isnan(value):
            Xml.SubElement(properties, "property", name=name, value=f"{value:g}")
    if case.status is Status.GREEN:
        return
    word = "failure" if case.status is Status.RED else "error"
    Xml.SubElement(element, word, message=f"{case.status}: {'; '.join(case.problems)}")


def _element(suite: Xml.Element, fault: str, operation: str, took_s: float) -> Xml.Element:
    return Xml.SubElement(
        suite, "testcase", classname=f"chaos.{fault}", name=operation, time=f"{took_s:.2f}"
    )
