"""One caller's work on the server, and what the daemon's looks say about it. Starts no process, opens no connection."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.core.acting.acts import ActResult, Result
from watchdog.core.acting.verdicts import ActionWithheld, Verdict, Withheld
from watchdog.core.judging.evidence import Finding, Kind
from watchdog.core.present.look import Look
from watchdog.demo.stories import Story


@dataclass(slots=True, kw_only=True)
class Work:
    """One caller's work on the server, identified by its backend. Times are seconds since the start of the round."""

    story: Story
    pid: int
    began: float
    left: float | None = None
    ended: float | None = None
    named_at: float | None = None
    named: set[str] = field(default_factory=set)
    evidence: set[str] = field(default_factory=set)
    cancelled_at: float | None = None
    withheld: Withheld | None = None
    served: bool = False
    logged: str = ""

    @property
    def for_nobody(self) -> float | None:
        """Seconds that the work ran on after its caller left. None before its end, and if the caller did not leave."""
        return None if self.left is None or self.ended is None else max(0.0, self.ended - self.left)

    @property
    def is_orphan(self) -> bool:
        """True if the daemon has called the work an orphan."""
        return self.named_at is not None

    def learn(self, look: Look, *, at: float) -> Iterator[str]:
        """Update this work from a look. Returns a phrase for each thing that is new."""
        for finding in look.judgement.findings:
            if finding.backend.pid == self.pid:
                yield from self._find(finding, at=at)
        for verdict in look.decisions.news:
            if verdict.finding.backend.pid == self.pid:
                yield from self._leave_alone(verdict)
        for done in look.results:
            if done.act.finding.backend.pid == self.pid:
                yield self._act(done, at=at)

    def _find(self, finding: Finding, *, at: float) -> Iterator[str]:
        if finding.kind not in self.named:
            yield _phrase(str(finding.kind), finding)
        self.named.add(finding.kind)
        if finding.kind is Kind.ORPHAN:
            self.named_at = at if self.named_at is None else self.named_at
            self.evidence |= set(finding.evidence)

    def _leave_alone(self, verdict: Verdict) -> Iterator[str]:
        if isinstance(verdict, ActionWithheld):
            self.withheld = verdict.reason
            yield f"left alone: {_words(verdict.reason)}"

    def _act(self, done: ActResult, *, at: float) -> str:
        match done.result:
            case Result.SIGNALLED:
                self.cancelled_at = at
                return _phrase("cancelled", done.act.finding)
            case Result.REHEARSED:
                return _phrase("would be cancelled", done.act.finding)
            case _:
                return f"not cancelled: {_words(done.withheld or done.result)}"


def server_log(log: Path, *, pid: int, since: int) -> str:
    """The first message about a backend in the server's log from byte `since` on, or '' if there is none."""
    marker = f"[{pid}] "
    for line in log.read_bytes()[since:].decode(errors="replace").splitlines():
        _, found, message = line.partition(marker)
        if found and message.startswith(("ERROR:", "FATAL:", "LOG:")):
            return " ".join(message.partition(":")[2].split())
    return ""


def _phrase(what: str, finding: Finding) -> str:
    return f"{what} ({_words(', '.join(finding.evidence))})" if finding.evidence else what


def _words(text: str) -> str:
    return text.replace("_", " ")
