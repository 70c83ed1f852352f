"""A running demo, and its output up to a line."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.processes import COMMAND, environment


@contextmanager
def demo(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A running demo that keeps its folder below `folder`."""
    folder.chmod(0o755)
    env = environment({"TMPDIR": str(folder), "COLUMNS": "120"})
    process = subprocess.Popen(
        [*COMMAND, "demo", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def read_until(process: "subprocess.Popen[str]", text: str) -> str:
    """The output up to the line that has `text` in it."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"the demo ended without {text!r}:\n{seen}")
