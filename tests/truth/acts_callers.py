"""What a caller of the second part writes down, and the connection through which it works.

Each command carries its caller's number in a comment, so that the server's log can be compared with what the caller
saw. Times are seconds of the machine's clock, which on this machine is the server's too.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field

import asyncpg

BUDGET, STUBBORN_BUDGET, POOLED_BUDGET = 1.5, 1.5, 4.0
"""Budgets of the roles web_app, stubborn_app and etl_app; the callers of etl_app come through PgBouncer."""
LOOP_BUDGET, DIGEST_BUDGET = 1.0, 4.0
"""Budgets of the two jobs, as the configuration states them for sessions whose name is read."""
GRACE = 0.3
RETRY_GAP = 0.5

LOST = "lost"
"""Stands for the SQLSTATE of a command whose connection was closed before its answer came."""


@dataclass(slots=True)
class Step:
    """One command. `saw` is the SQLSTATE of its error, '' if it succeeded, or `LOST`."""

    verb: str
    began: float
    ended: float = 0.0
    saw: str = ""


@dataclass(slots=True)
class Caller:
    """One caller. `gave_up` is when its own patience ended; it is None if its work was done by then."""

    number: int
    kind: str
    gave_up: float | None = None
    steps: list[Step] = field(default_factory=list)

    def line(self) -> str:
        """The caller as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, line: str) -> "Caller":
        """The caller of a line that `line` has made."""
        values = json.loads(line)
        return cls(values["number"], values["kind"], values["gave_up"], [Step(**each) for each in values["steps"]])


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the harness asks for: where the server and the pooler are, and how many callers come in which time."""

    port: int
    pooler: int
    password: str
    callers: int
    seconds: float
    seed: int


@dataclass(slots=True)
class Session:
    """A connection, and the caller that uses it at the moment."""

    connection: "asyncpg.Connection[asyncpg.Record]"
    caller: Caller

    async def run(self, sql: str) -> str:
        """Run a command to its end and write it down. Returns what the caller saw."""
        verb = "ROLLBACK TO" if sql.startswith("ROLLBACK TO") else sql.split(maxsplit=1)[0]
        step = Step(verb, time.time())
        label = f"/* caller {self.caller.number}.{len(self.caller.steps)} */"
        self.caller.steps.append(step)
        try:
            await self.connection.execute(f"{sql} {label}")
        except (asyncpg.InterfaceError, asyncpg.PostgresConnectionError, OSError):
            step.saw = LOST
        except asyncpg.PostgresError as error:
            step.saw = str(error.sqlstate)
        step.ended = time.time()
        return step.saw

    def drop(self) -> None:
        """Close the connection as the death of the client's process does, without a cancel."""
        self.connection.terminate()


@dataclass(frozen=True, slots=True)
class Office:
    """Numbers the callers, connects them, and prints what each has written down."""

    arguments: Arguments
    next_number: Callable[[], int]

    @asynccontextmanager
    async def session(
        self, kind: str, *, role: str = "web_app", name: str = "", pooled: bool = False, patience: float | None = None
    ) -> AsyncIterator[Session]:
        """A session with a new caller, who gives up after `patience` seconds if the block has not ended by then."""
        connection = await asyncpg.connect(
            host="127.0.0.1",
            port=self.arguments.pooler if pooled else self.arguments.port,
            user=role,
            password=self.arguments.password,
            database="postgres",
            server_settings={"application_name": name},
            statement_cache_size=0,
        )
        caller = Caller(self.next_number(), kind)
        session = Session(connection, caller)
        timer = None if patience is None else asyncio.get_running_loop().call_later(patience, give_up, caller)
        try:
            yield session
        finally:
            if timer is not None:
                timer.cancel()
            if not connection.is_closed():
                await connection.close(timeout=5)
            print(caller.line(), flush=True)

    async def passed_on(self, session: Session, *, seconds: float) -> None:
        """Let another caller use a session. It waits for its answer, and its own budget is not over."""
        caller = Caller(self.next_number(), "next")
        session.caller = caller
        await session.run(f"SELECT pg_sleep({seconds:.3f})")
        print(caller.line(), flush=True)


def give_up(caller: Caller) -> None:
    """Note that the caller does not wait any more. Its command goes on."""
    caller.gave_up = time.time()
