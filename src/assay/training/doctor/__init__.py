"""The doctor: what would make a training useless or end it hours later, named before the first step."""

from assay.training.doctor.deadline import AHEAD as AHEAD
from assay.training.doctor.deadline import MOST_SECONDS as MOST_SECONDS
from assay.training.doctor.examination import examine as examine
from assay.training.doctor.examination import examine_ahead as examine_ahead
from assay.training.doctor.examination import examine_without_model as examine_without_model
from assay.training.doctor.findings import Finding as Finding
from assay.training.doctor.findings import in_words as in_words
from assay.training.doctor.findings import refuse_faults as refuse_faults
from assay.training.doctor.findings import verdict_of as verdict_of
from assay.training.doctor.settings import settings_findings as settings_findings
