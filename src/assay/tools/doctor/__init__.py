"""The doctor: what would make a training useless or end it hours later, named before the first step."""

from assay.tools.doctor.examination import examine as examine
from assay.tools.doctor.examination import examine_ahead as examine_ahead
from assay.tools.doctor.examination import examine_without_model as examine_without_model
from assay.tools.doctor.findings import AHEAD as AHEAD
from assay.tools.doctor.findings import refuse_faults as refuse_faults
from assay.tools.doctor.settings import settings_findings as settings_findings
from assay.tools.findings import MOST_SECONDS as MOST_SECONDS
from assay.tools.findings import Finding as Finding
from assay.tools.findings import in_words as in_words
from assay.tools.findings import verdict_of as verdict_of
