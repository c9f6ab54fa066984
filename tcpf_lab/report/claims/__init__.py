"""What the thesis and the paper say of their results, as checks of numbers."""

from tcpf_lab.report.claims import paper_other, paper_sack, tables, thesis_reno, thesis_sack
from tcpf_lab.report.claims.judge import Claim
from tcpf_lab.report.claims.thesis_summary import SECTION_4_5

#: Every claim, in the order of the texts.
CLAIMS: tuple[Claim, ...] = (
    *tables.TABLES,
    *thesis_sack.SECTION_4_1,
    *thesis_reno.SECTION_4_2,
    *thesis_sack.SECTION_4_3,
    *thesis_reno.SECTION_4_4,
    *SECTION_4_5,
    *paper_sack.SECTION_6_2_1,
    *paper_other.SECTION_6_2_2,
    *paper_other.SECTION_6_2_3,
    *paper_other.SECTION_6_2_4,
    *paper_other.SECTION_7,
)
