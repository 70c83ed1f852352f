"""Reads one YAML file into plain values, with the line of every value. Ambiguous YAML is reported as a problem.

YAML 1.1 reads `on` as a boolean, `1:30` as 90 and `010` as 8, and silently takes the last of two equal keys. That is
too dangerous for a configuration that decides which queries are cancelled. The module does not know the schema.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

Place = tuple[str | int, ...]
Value = object

_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FRACTION = re.compile(r"[-+]?(0|[1-9][0-9]*)\.[0-9]+")
_QUOTE_IT = "if the word is meant, put it in quotes"


@dataclass(slots=True)
class Document:
    """The content of a file: `values` for the schema, `lines` for error messages, and `problems` found so far."""

    name: str
    values: dict[str, Value] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[tuple[Place, str]] = field(default_factory=list)

    def where(self, place: Place) -> str:
        """The place as `file:line: dotted.path`, with the line as `line` finds it."""
        line = self.line(place)
        return f"{self.name}:{line}: {dotted(place)}" if place else f"{self.name}:{line}"

    def value(self, place: Place) -> Value:
        """The value at `place`, or None if there is none."""
        found: Value = self.values
        for part in place:
            if isinstance(found, dict) and isinstance(part, str):
                found = found.get(part)
            elif isinstance(found, list) and isinstance(part, int) and part < len(found):
                found = found[part]
            else:
                return None
        return found

    def line(self, place: Place) -> int:
        """The line of `place`, or of the innermost enclosing place whose line is known."""
        known = next((place[:end] for end in range(len(place), -1, -1) if place[:end] in self.lines), ())
        return self.lines.get(known, 1)


def dotted(place: Place) -> str:
    """The path as text, for example `clusters[0].dsn`."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_document(path: Path, *, text: str) -> Document:
    """Read `text` of the file at `path`. Mistakes in it become problems of the document, never exceptions."""
    document = Document(str(path))
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            document.problems.append(((), "anchors and aliases are not supported: write the value out"))
            return document
        roots = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except RecursionError:
        document.problems.append(((), "it is nested too deeply"))
        return document
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        document.lines[()] = mark.line + 1 if mark else 1
        document.problems.append(((), f"not YAML: {getattr(error, 'problem', None) or error}"))
        return document
    if len(roots) != 1 or not isinstance(roots[0], yaml.MappingNode):
        what = "is empty" if not roots or _is_null(roots[0]) else "must be one mapping of keys to values"
        document.problems.append(((), f"the file {what}; the smallest one that runs names a cluster"))
        return document
    try:
        value = _value(roots[0], place=(), document=document)
    except RecursionError:
        document.problems.append(((), "it is nested too deeply"))
        return document
    document.values = value if isinstance(value, dict) else {}
    return document


def read_scalar(text: str) -> Value:
    """Read one scalar by the rules of the file. It is used for values from the environment.

    Raises:
        ValueError: the scalar is ambiguous in YAML.

    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return text  # it is no YAML scalar, for example the address [::1]:10187, and is taken literally
    return _scalar(node) if isinstance(node, yaml.ScalarNode) else text


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _value(node: yaml.Node, *, place: Place, document: Document) -> Value:
    document.lines.setdefault(place, node.start_mark.line + 1)
    match node:
        case yaml.MappingNode():
            return _mapping(node, place=place, document=document)
        case yaml.SequenceNode():
            return [_value(each, place=(*place, i), document=document) for i, each in enumerate(node.value)]
        case yaml.ScalarNode():
            try:
                return _scalar(node)
            except ValueError as error:
                document.problems.append((place, str(error)))
                return _Trapped()
    raise TypeError(f"YAML has no node of type {type(node).__name__}")


class _Trapped:
    """Placeholder for a value that could not be read. Its problem is already in the document."""


def is_trapped(value: object) -> bool:
    """True for the placeholder of a value that could not be read."""
    return isinstance(value, _Trapped)


def _mapping(node: yaml.MappingNode, *, place: Place, document: Document) -> dict[str, Value]:
    result: dict[str, Value] = {}
    for key_node, value_node in node.value:
        key = _key(key_node, place=place, document=document)
        inner = (*place, key)
        if key in result:
            first = document.lines[inner]
            document.lines[(*inner, "again")] = key_node.start_mark.line + 1
            document.problems.append(((*inner, "again"), f"the key {key!r} stands twice, first in line {first}"))
            continue
        document.lines[inner] = key_node.start_mark.line + 1
        result[key] = _value(value_node, place=inner, document=document)
    return result


def _key(node: yaml.Node, *, place: Place, document: Document) -> str:
    if not isinstance(node, yaml.ScalarNode):
        document.lines[place] = node.start_mark.line + 1
        document.problems.append((place, "a key must be a word"))
        return str(node.start_mark.index)
    try:
        value = _scalar(node)
    except ValueError as error:
        document.lines[(*place, node.value)] = node.start_mark.line + 1
        document.problems.append(((*place, node.value), str(error)))
        return str(node.value)
    if not isinstance(value, str):
        document.lines[(*place, node.value)] = node.start_mark.line + 1
        document.problems.append(((*place, node.value), f"the key {node.value} is not a word; {_QUOTE_IT}"))
    return str(node.value)


def _scalar(node: yaml.ScalarNode) -> Value:
    text: str = node.value
    if node.style is not None:
        return text
    match node.tag.removeprefix("tag:yaml.org,2002:"):
        case "null":
            return None
        case "bool":
            if text.lower() in {"true", "false"}:
                return text.lower() == "true"
            raise ValueError(f"{text} is a boolean in YAML: write true or false, or, {_QUOTE_IT}")
        case "int":
            if _DECIMAL.fullmatch(text):
                return int(text)
            raise ValueError(f"YAML reads {text} as another number: write plain digits, or, {_QUOTE_IT}")
        case "float":
            if _FRACTION.fullmatch(text):
                return float(text)
            raise ValueError(f"YAML reads {text} as another number: write plain digits, or, {_QUOTE_IT}")
    return text
