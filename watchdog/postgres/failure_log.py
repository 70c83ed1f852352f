"""Counts the statements of one cluster that fail. It outlives the session: the counts are those of the process."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from watchdog.core.observed.statement_failures import StatementFailure, StatementFailures


@dataclass(slots=True)
class FailureLog:
    """Failures by statement, by their names. Each of `names` is there from the start, with 0."""

    names: Iterable[str]
    by_name: dict[str, StatementFailure] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with no failure."""
        self.by_name = dict.fromkeys(self.names, StatementFailure())

    def failed(self, name: str, *, detail: str) -> None:
        """Count a failure; statements that are not among the names are somebody else's to count."""
        if name in self.by_name:
            self.by_name[name] = StatementFailure(self.by_name[name].count + 1, detail)

    def succeeded(self, name: str) -> None:
        """The last attempt did not fail."""
        before = self.by_name.get(name)
        if before is not None and before.detail is not None:
            self.by_name[name] = StatementFailure(before.count)

    def go_on_from(self, before: "FailureLog") -> None:
        """Go on with the counts of another log. Whether a last attempt there failed says nothing about this one."""
        for name, each in before.by_name.items():
            if name in self.by_name:
                self.by_name[name] = replace(self.by_name[name], count=self.by_name[name].count + each.count)

    def read(self) -> StatementFailures:
        """The failures up to now, as a value."""
        return dict(self.by_name)
