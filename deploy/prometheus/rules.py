"""Makes the rules and their unit tests from templates/ and values.yaml: `make docs`. A test compares them.

The templates are YAML. The words REPLICA, SCRAPER, JOB and RUNBOOK in them stand for values of values.yaml.
"""

import re
from pathlib import Path

import yaml

HERE = Path(__file__).parent
NAMES = ("rules.yaml", "rules-optional.yaml", "rules_test.yaml")


def rendered(name: str) -> str:
    """The file `name`, made from its template."""
    words = _words()
    template = (HERE / "templates" / name).read_text(encoding="utf-8")
    text = re.sub(rf"\b(?:{'|'.join(words)})\b", lambda found: words[found[0]], template)
    return f"# Generated from templates/{name} and values.yaml: make docs.\n{text}"


def _words() -> dict[str, str]:
    values = yaml.safe_load((HERE / "values.yaml").read_text(encoding="utf-8"))
    return {
        "REPLICA": ", ".join((*values["replica"], *values["scraper"])),
        "SCRAPER": ", ".join(values["scraper"]),
        "JOB": values["job"],
        "RUNBOOK": values["runbook"],
    }


if __name__ == "__main__":
    for each in NAMES:
        (HERE / each).write_text(rendered(each), encoding="utf-8")
