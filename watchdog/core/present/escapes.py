"""Makes text from outside safe to print: names of roles and jobs, application names, and messages of servers.

A terminal obeys control characters, and a bidirectional override reverses what follows it. JSON needs none of this:
`json.dumps` writes printable ASCII alone.
"""


def printable(text: str) -> str:
    r"""The text with each character that is not printable as an escape: `\x1b`, `\n`, `\u202e`.

    These are the characters that `repr` escapes: controls, formats such as the bidirectional overrides, line and
    paragraph separators, lone surrogates, and all spaces but U+0020.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    return repr(character)[1:-1]
