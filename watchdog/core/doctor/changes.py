"""What the doctor proposes: each change with the statement that makes it, or the reason why that must not be run."""

from dataclasses import dataclass

from watchdog.core.present.escapes import printable


@dataclass(frozen=True, slots=True)
class SetParameter:
    """A parameter of the whole server; without a value it goes back to what the configuration file says."""

    name: str
    value: str | None = None

    @property
    def sql(self) -> str:
        """The statement, for a server of one's own."""
        return f"ALTER SYSTEM {_setting(self.name, self.value)};"

    @property
    def plain(self) -> str:
        """The name and the value, for whatever else sets it."""
        return f"{self.name} back to its default" if self.value is None else f"{self.name} = '{self.value}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetForRole:
    """A setting stored for a role, in one database or in all; without a value it is taken away."""

    role: str
    name: str
    value: str | None = None
    database: str | None = None

    @property
    def sql(self) -> str:
        """The statement."""
        where = f" IN DATABASE {quoted(self.database)}" if self.database is not None else ""
        return f"ALTER ROLE {quoted(self.role)}{where} {_setting(self.name, self.value)};"


@dataclass(frozen=True, slots=True)
class LimitConnections:
    """How many connections a role may have."""

    role: str
    limit: int

    @property
    def sql(self) -> str:
        """The statement."""
        return f"ALTER ROLE {quoted(self.role)} CONNECTION LIMIT {self.limit};"


@dataclass(frozen=True, slots=True)
class GrantRole:
    """Membership of one role in another; `role` is a predefined one, whose name needs no quotes."""

    role: str
    to: str

    @property
    def sql(self) -> str:
        """The statement."""
        return f"GRANT {self.role} TO {quoted(self.to)};"


Change = SetParameter | SetForRole | LimitConnections | GrantRole


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change. `withheld` is why its statement is printed as a comment, empty where it can be run.

    `instead`: what that comment shows in place of the statement.
    """

    change: Change
    withheld: str = ""
    instead: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """What a person reads: the statement, or what stands in its place."""
        return "\n".join(self.instead) or self.change.sql

    @property
    def lines(self) -> list[str]:
        """As lines of SQL. What is withheld is comments alone, also where a name has line breaks."""
        if not self.withheld:
            return [self.change.sql]
        commented = [f"--   {each}" for each in self.shown.splitlines()]
        return [f"-- Not to be run: {one_line(self.withheld)}", *commented]


def quoted(identifier: str) -> str:
    """An identifier for SQL, always in quotes: what needs them depends on the server's keywords."""
    return '"' + identifier.replace('"', '""') + '"'


def one_line(text: str) -> str:
    """Names come from the server: none of them may end a comment and begin a statement."""
    return printable(" ".join(text.split()))


def _setting(name: str, value: str | None) -> str:
    return f"RESET {name}" if value is None else f"SET {name} = '{value}'"
