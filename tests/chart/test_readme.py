"""The chart's README tells every value."""

import json
import re

import yaml

from conftest import CHART, UPDATE

BEGIN, END = "<!-- values: made by scripts/check-chart --update -->\n", "<!-- end of values -->\n"


def rows():
    """Each value with its comment: the lines `# -- text` before its key."""
    path, comment = [], None
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for line in (CHART / "values.yaml").read_text().splitlines():
        if told := re.fullmatch(r"\s*# -- (.+)", line):
            comment = told[1]
        elif key := re.match(r"( *)([\w-]+):", line):
            depth = len(key[1]) // 2
            path[depth:] = [key[2]]
            value = values
            for name in path if comment else []:
                value = value[name]
            if comment:
                yield ".".join(path), value, comment
            comment = None
        else:
            assert comment is None, line


def table():
    lines = ["| value | default | what it is |", "| --- | --- | --- |"]
    for name, value, comment in rows():
        told = json.dumps(value) if not isinstance(value, str) or not value else value
        told = "see `values.yaml`" if len(told) > 60 else f"`{told}`"
        lines.append(f"| `{name}` | {told} | {comment.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def leaves(values, path=()):
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield ".".join((*path, key))


def test_the_table_of_values_is_what_values_yaml_says():
    readme = CHART / "README.md"
    text = readme.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    if UPDATE:
        readme.write_text(before + BEGIN + "\n" + table() + "\n" + END + after)
    assert readme.read_text() == before + BEGIN + "\n" + table() + "\n" + END + after, "scripts/check-chart --update writes it anew"


def test_every_value_has_a_comment():
    told = [name for name, _, _ in rows()]
    missing = [leaf for leaf in leaves(yaml.safe_load((CHART / "values.yaml").read_text()))
               if not any(leaf == name or leaf.startswith(name + ".") for name in told)]
    assert missing == []
