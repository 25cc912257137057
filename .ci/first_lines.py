"""Runs the examples of a page that need neither model nor trainer: python .ci/first_lines.py docs/api.md"""

import importlib.util
import re
import sys
from pathlib import Path

page = Path(sys.argv[1]).read_text(encoding="utf-8")
examples = re.findall(r"^## [^\n]+\n\n```python\n(.*?)^```", page, re.M | re.S)
assert len(examples) == 3, "those that come right below their headings"
assert importlib.util.find_spec("torch") is None
for example in examples:
    exec(example, {})
