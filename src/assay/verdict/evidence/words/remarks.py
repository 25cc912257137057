"""A remark: what is said of a claim as a code with its values, for programs; `str` of it is the sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Self, TypeVar

from jinja2 import Environment, StrictUndefined, Template, TemplateError
from jinja2.meta import find_undeclared_variables
from pydantic import Field, JsonValue, model_validator
from pydantic_core import to_jsonable_python

from assay.core.counting import counted
from assay.core.records import Alarm, Interval, Record, RuleSummary, TrainAlarm
from assay.core.storage.json import dumps
from assay.rollout.dataset.audit_records import SAID, Overlap, overlap_said
from assay.rollout.dataset.external import WholeFacts
from assay.rollout.evaluation.alarms import alarm_said, rule_said, training_alarm_said
from assay.rollout.evaluation.measures import is_rate
from assay.verdict.evidence.escape import plain_name, visible
from assay.verdict.evidence.formatting import difference_text, p_text, percent, signed
from assay.verdict.evidence.words.english import KINDS, TEXTS

R = TypeVar("R", bound=Record)


class Remark(Record):
    """One thing said of a claim: a verdict's reason, what bars it, or a warning.

    >>> told = remark("few_clusters", n=8, clusters="scenarios")
    >>> told.code, told.values, str(told)
    ('few_clusters', {'n': 8, 'clusters': 'scenarios'}, 'Only 8 scenarios: the interval is wide.')
    """

    code: str = Field(description="what is said", json_schema_extra={"enum": [*sorted(TEXTS)]})
    values: dict[str, JsonValue] = Field(default={}, description="of what: numbers and names, by name")

    @model_validator(mode="after")
    def _can_be_said(self) -> Self:
        if self.code not in TEXTS:
            raise ValueError(f"{self.code[:40]!r} is no code of this version")
        if (expected := values_of(self.code)) != self.values.keys():
            raise ValueError(f"{self.code} has the values {sorted(expected)}, not {sorted(self.values)[:9]}")
        try:
            _ = str(self), self.kind
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, TemplateError) as error:
            raise ValueError(f"the values of {self.code} cannot be said: {error}"[:200]) from None
        return self

    def __str__(self) -> str:
        return _template(TEXTS[self.code]).render(self.values)

    @property
    def kind(self) -> str:
        """Of what bars a claim: what a headline says, without a number."""
        return _template(KINDS.get(self.code, "")).render(self.values)

    def renamed(self, arm: str) -> Remark:
        """Return the same said of an arm of another name; as it is where it is about none."""
        return remark(self.code, **self.values | {"arm": arm}) if "arm" in self.values else self


def remark(code: str, /, **values: object) -> Remark:
    """Return a remark; records and tuples among its values become what JSON has for them.

    Raises:
        ValidationError: There is no such code, or it has other values (a fault of assay).
    """
    return Remark(code=code, values=to_jsonable_python(values))


def say_all(remarks: Sequence[Remark]) -> str:
    """Return several reasons as one text."""
    return "; ".join(map(str, remarks))


@cache
def values_of(code: str) -> frozenset[str]:
    """Return the names of the values that a code has."""
    texts = TEXTS[code], KINDS.get(code, "")
    return frozenset().union(*(find_undeclared_variables(_ENGLISH.parse(text)) for text in texts))


@cache
def _template(text: str) -> Template:
    return _ENGLISH.from_string(text)


def _read(kind: type[R], value: Any) -> R:
    return kind.model_validate_json(dumps(value))  # as from a file: a list is a tuple there


def _gap(value: Any, measure: str = "success_rate") -> str:
    return difference_text(_read(Interval, value), rate=is_rate(measure))


def _remarks(value: Any) -> list[Remark]:
    return [_read(Remark, each) for each in ([value] if isinstance(value, Mapping) else value)]


def _quoted(reason: str) -> str:
    r"""Return a stranger's text on one line, in quotes that it cannot close.

    >>> ascii(_quoted("line\n\u201d fine\u202e")) == ascii("\u201cline '' fine\\u202e\u201d")
    True
    """
    text = visible(" ".join(reason.split())).replace("\u201c", "''").replace("\u201d", "''")
    return f"\u201c{text}\u201d"


def _as_yaml(value: Any) -> str:
    """Return a value as YAML has it.

    >>> _as_yaml(False), _as_yaml(1000.0)
    ('false', '1000')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _others(n: int) -> str:
    return f"{n} other {'policy' if n == 1 else 'policies'}"


# Sentences are text, which whoever shows them escapes for their page.
_ENGLISH = Environment(autoescape=False, undefined=StrictUndefined)
_ENGLISH.filters |= {
    "bases": lambda rivals: f"the untrained base ({', '.join(each['name'] for each in rivals)})",
    "as_code": lambda names: ", ".join(ascii(name)[:60] for name in names),
    "as_yaml": _as_yaml,
    "counted": counted,
    "gap": _gap,
    "gaps": lambda values: ", ".join(map(_gap, values)),
    "kind": lambda value: "; ".join(each.kind for each in _remarks(value)),
    "of_episodes": lambda alarm, where: alarm_said(_read(Alarm, alarm), where),
    "of_p": p_text,
    "of_rule": lambda found: rule_said(_read(RuleSummary, found)),
    "of_training": lambda alarm: training_alarm_said(_read(TrainAlarm, alarm)),
    "of_whole": lambda whole: _read(WholeFacts, whole).said,
    "on_one_line": lambda text: visible(" ".join(text.split())),
    "others": _others,
    "percent": percent,
    "plain": plain_name,
    "points": signed,
    "quoted": _quoted,
    "say": lambda value: say_all(_remarks(value)),
    "shared": lambda overlap: overlap_said(_read(Overlap, overlap)),
    "shared_kind": lambda overlap: SAID[_read(Overlap, overlap).kind].split(",")[0],
    "with_gaps": lambda rivals: ", ".join(f"{each['name']} ({_gap(each['difference'])})" for each in rivals),
}
