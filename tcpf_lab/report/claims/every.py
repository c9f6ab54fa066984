"""What the thesis and the paper say of their results, as checks of numbers."""

from tcpf_lab.report.claims import companions, thesis_reno, thesis_sack, thesis_tables
from tcpf_lab.report.claims.judge import Claim
from tcpf_lab.report.claims.thesis_reno import SECTION_4_5

#: Every claim, in the order of the texts.
CLAIMS: tuple[Claim, ...] = (
    *thesis_tables.TABLES,
    *thesis_sack.SECTION_4_1,
    *thesis_reno.SECTION_4_2,
    *thesis_sack.SECTION_4_3,
    *thesis_reno.SECTION_4_4,
    *SECTION_4_5,
    *companions.SECTION_6_2_1,
    *companions.SECTION_6_2_2,
    *companions.SECTION_6_2_3,
    *companions.SECTION_6_2_4,
    *companions.SECTION_7,
)
