"""A statement of `sql/` with the type of its rows. Its columns have the names of the type's fields."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError

Row = TypeVar("Row", bound=NamedTuple)


@dataclass(frozen=True, slots=True)
class Statement(Generic[Row]):
    """The statement in `sql/NAME.sql`. `row` is the type of each of its rows."""

    name: str
    row: type[Row]

    def check(self, columns: Sequence[str]) -> None:
        """Check that the columns sent by the server have the names of the fields, in the same order.

        Raises:
            ReadError: the names or their order differ (reason `internal`).

        """
        expected = self.row._fields
        if tuple(columns) != expected:
            raise ReadError(
                Reason.INTERNAL,
                f"statement {self.name}: expected the columns {', '.join(expected)}; received {', '.join(columns)}",
            )

    def rows(self, fetched: Iterable[tuple[object, ...]]) -> list[Row]:
        """The rows of the driver, with named fields.

        The types of the values are not checked here: `_make` accepts any values. They are the types of the statement's
        columns, and the tests check them on each supported version.
        """
        return list(map(self.row._make, fetched))
