"""A statement of `sql/` with the type of its rows. The names of its columns are those of the type's fields."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError

Row = TypeVar("Row", bound=NamedTuple)


@dataclass(frozen=True, slots=True)
class Statement(Generic[Row]):
    """The statement in `sql/NAME.sql`; each of its rows is a `row`."""

    name: str
    row: type[Row]

    def check(self, columns: Sequence[str]) -> None:
        """Compare the names of the columns that a server has sent with those of the fields.

        Raises:
            ReadError: internal; they are not the same, or not in the same order.

        """
        expected = self.row._fields
        if tuple(columns) != expected:
            raise ReadError(
                Reason.INTERNAL,
                f"statement {self.name}: expected the columns {', '.join(expected)}; received {', '.join(columns)}",
            )

    def rows(self, fetched: Iterable[tuple[object, ...]]) -> list[Row]:
        """The rows as the driver gives them, with names.

        This is the one place where their types are taken on trust: `_make` accepts any values. They are the types of
        the statement's columns; the tests check them on each supported version.
        """
        return list(map(self.row._make, fetched))
