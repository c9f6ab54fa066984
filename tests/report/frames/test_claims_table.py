"""Claims and published numbers as tables."""

from __future__ import annotations

from tcpf_lab.report.claims.terms import CLAIMS
from tcpf_lab.report.frames.results import published_table
from tcpf_lab.report.section import gather
from tcpf_lab.run.api import Results


def test_every_claim_has_a_row_with_its_verdicts(source, write_all):
    write_all()
    found = Results("A", gather([source])).claims
    assert list(found["claim"]) == [claim.id for claim in CLAIMS]
    assert set(found["published_verdict"]) <= {"holds", "refuted", "not decidable"}
    decided = found[found["verdict"] != "not decidable"]
    assert (decided["holding"] <= decided["measured"]).all()
    assert (decided["measured"] <= decided["checks"]).all()
    assert found["source"].str.match("thesis|paper|tables").all()


def test_published_numbers_are_those_of_the_tables():
    found = published_table(["B"])
    assert len(found) == 14 * 4
    assert set(found["config"]) == {"B"}
    loss = found.query("case == 'NoMark+RED' and flows == 100 and metric == 'loss_percent'")
    assert list(loss["unit"]) == ["%"]
    assert len(published_table()) == 56 * 4
