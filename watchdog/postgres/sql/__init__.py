"""The SQL statements of the daemon, one in each file. Catalog names are schema-qualified and parameters are bound.

`NAME.sql` is for the newest servers. Where older servers need another text, there is a variant: `NAME@17.sql` is for
servers up to and including major version 17. If there are several variants, the lowest one that is not below the
server's major version is used. A variant takes the same parameters and returns the same columns as `NAME.sql`.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from watchdog.core.observed.versions import major

_FILE = re.compile(r"(?P<name>\w+)(?:@(?P<major>\d+))?\.sql")


def statement(name: str, *, version: int) -> bytes:
    """The text for a server of `version` (180006 for 18.6). Comments are included: the server's log shows them."""
    return own_texts().pick(name, version=version)


@cache
def own_texts() -> "Texts":
    """The statements of this package, read once."""
    return Texts.read(resources.files(__package__))


@dataclass(frozen=True, slots=True)
class Texts:
    """The statements of a folder. Each name has one or more texts, keyed by the newest major version each is for."""

    by_name: Mapping[str, Mapping[int, bytes]]

    @classmethod
    def read(cls, folder: Traversable) -> "Texts":
        """Read every statement of `folder`."""
        found: dict[str, dict[int, bytes]] = {}
        for file in folder.iterdir():
            if match := _FILE.fullmatch(file.name):
                newest = int(match["major"] or sys.maxsize)
                found.setdefault(match["name"], {})[newest] = file.read_bytes()
        return cls(found)

    def pick(self, name: str, *, version: int) -> bytes:
        """The text for a server of `version`."""
        texts = self.by_name[name]
        return texts[min(newest for newest in texts if newest >= major(version))]
