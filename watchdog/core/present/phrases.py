"""The phrases that all outputs for the user share: time spans, verdicts, the arming of a cluster.

This module gives text. It knows nothing of tables and pages.
"""

from datetime import timedelta
from typing import assert_never

from watchdog.core.acting.breakers import CLUSTER
from watchdog.core.acting.status import EXPLAINED, KeyHolder
from watchdog.core.acting.verdicts import ActionWithheld, Due, Hand, Observed, UnderWay, Verdict
from watchdog.core.judging.evidence import Kind
from watchdog.core.observed.census import Census
from watchdog.core.observed.sockets import SocketVisibility
from watchdog.core.observed.statement_failures import failing
from watchdog.core.observed.versions import MAX_TESTED, MIN_SUPPORTED, is_untested, major
from watchdog.core.present.look import Look
from watchdog.core.present.not_looked_for import UNSEEN, not_looked_for

_TENTHS_BELOW = 10
_UNITS = (("d", 86_400, 3_600, "h"), ("h", 3_600, 60, "m"), ("m", 60, 1, "s"))


def span(value: timedelta | None) -> str:
    """A time span as text with at most two units, such as `32m 10s`; `-` for None."""
    if value is None:
        return "-"
    seconds = value.total_seconds()
    if seconds < _TENTHS_BELOW:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = int(seconds)
    for name, size, rest, inner in _UNITS:
        if whole >= size:
            remainder = whole % size // rest
            return f"{whole // size}{name} {remainder:02d}{inner}" if remainder else f"{whole // size}{name}"
    return f"{whole}s"


def nothing_found(look: Look, *, judges: bool) -> str | None:
    """The sentence for a cluster without findings.

    It is None if there are findings, or if a lack of findings means nothing: without a budget (`judges` is False), and
    if the rows of other roles could not be read.
    """
    if not judges or not look.complete or look.judgement.findings:
        return None
    limits = limit_words(look)
    return "Nothing found." if limits is None else f"Nothing found. {limits}"


def limit_words(look: Look) -> str | None:
    """A sentence that lists what the look did not look for, or None if it looked for everything."""
    limits = not_looked_for(look)
    return f"Not looked for: {'; '.join(each.sentence for each in limits)}." if limits else None


def gravest_first(look: Look) -> list[Verdict]:
    """The verdicts of a look, ordered by the kind of the finding and then by age, the oldest first."""
    kinds = list(Kind)
    return sorted(look.decisions.verdicts, key=lambda each: (kinds.index(each.finding.kind), -each.finding.running))


def verdict_words(verdict: Verdict) -> str:
    """A verdict in words."""
    match verdict:
        case Observed(rule=rule):
            return "shown only" if rule is None else f"shown only, by rule {rule.name}"
        case ActionWithheld(reason=reason):
            return f"left alone: {reason.replace('_', ' ')}"
        case Due(hand=Hand.REHEARSE, rule=rule) | UnderWay(hand=Hand.REHEARSE, rule=rule):
            return f"would {rule.action} (dry run)"
        case UnderWay():
            return "cancel sent, its effect is awaited"
        case Due():
            return "to be cancelled"
    assert_never(verdict)


def lease_holder(look: Look) -> str | None:
    """Who holds the lease, or None if it is held by this pgwatchdog or by nobody."""
    lease = look.lease
    return None if lease.leads or lease.holder is None else key_holder(lease.holder, look.census)


def key_holder(holder: KeyHolder, census: Census) -> str:
    """A holder of the lease's key in words."""
    where = "" if holder.database is None else f" in database {census.database(holder.database)}"
    role = census.role(holder.role)
    if holder.pid is None:
        return f"the prepared transaction {holder.prepared!r} of {role}{where}"
    return f"{role}, pid {holder.pid}{where}"


def ignored_holders(look: Look) -> list[str]:
    """Who holds the lease's key elsewhere and does not count, because that role could not signal."""
    return [
        f"The lease's key is also held by {key_holder(each, look.census)}: ignored, it could cancel nothing."
        for each in look.lease.ignored
    ]


def socket_words(look: Look) -> str | None:
    """Why sockets are not visible, or None if they are visible or were not asked for."""
    if look.socket_visibility is SocketVisibility.NOT_ASKED:
        return None
    reason = UNSEEN.get(look.socket_visibility)
    return None if reason is None else f"Clients that are gone are not seen: {reason}."


def failure_words(look: Look) -> list[str]:
    """One sentence for each statement beside the poll whose last attempt failed."""
    return [f"The statement {name} fails: {detail}" for name, detail in failing(look.statement_failures).items()]


def breaker_words(look: Look) -> list[str]:
    """One sentence for each open breaker that stops the acts on one role. The cluster's is a reason to be disarmed."""
    words = []
    for each in look.decisions.open_breakers:
        if each != CLUSTER:
            rule = f" by rule {each.rule}" if each.rule else ""
            words.append(f"Acts{rule} on sessions of {each.role} are stopped for a while, because earlier ones failed.")
    return words


def untested_words(look: Look) -> str | None:
    """A sentence for a server that is newer than every version that the tests run on."""
    if not is_untested(look.census.server_version):
        return None
    tested = f"this pgwatchdog was tested with {MIN_SUPPORTED} to {MAX_TESTED}"
    return f"PostgreSQL {major(look.census.server_version)} is untested: {tested}."


def arming_words(look: Look) -> list[str]:
    """A sentence that says whether the cluster is armed, and then every reason why it is not."""
    holder = lease_holder(look)
    if not look.disarmed and not look.status.at_once:
        return ["Armed: what policy decides is done."]
    if not look.disarmed:
        leads = f"the lease is held by {holder}" if holder else "nobody holds the lease, so no pgwatchdog acts now"
        return ["Armed by this configuration.", leads]
    kind = "Dry run: nothing is signalled" if look.status.rehearses else "Not armed: nothing is signalled"
    reasons = [EXPLAINED[each] for each in look.disarmed]
    return [f"{kind}.", *reasons, *([f"the lease is held by {holder}"] if holder else [])]
