"""Our own connection: what is in between, how it is protected, how many there are, and who holds the lease."""

import re
from collections.abc import Iterator
from datetime import timedelta

from watchdog.core.acting.status import EXPLAINED, DisarmReason
from watchdog.core.doctor.changes import LimitConnections, Remedy
from watchdog.core.doctor.checks import Check, failed, ok, unknown, warning
from watchdog.core.doctor.facts import Facts
from watchdog.core.present.phrases import key_holder, span, untested_words

CROWDED, FULL = 0.8, 0.95
"""Shares of max_connections in use from which the check is a warning and from which it fails."""

LEAST_TLS = (1, 2)
"""Older versions are deprecated (RFC 8996)."""

_TLS_VERSION = re.compile(r"TLSv(\d+)(?:\.(\d+))?")


def audit_connection(facts: Facts) -> Iterator[Check]:
    """One check for the server's version, and one for each property of our own connection."""
    yield _version(facts)
    if facts.variables:
        yield ok("environment", f"libpq also took {', '.join(facts.variables)} from the environment")
    yield _pooler(facts)
    yield _tls(facts)
    yield _connections(facts)
    yield _connection_limit(facts)
    yield _idle_session(facts)
    yield _lease(facts)
    yield _lease_database(facts)


def _version(facts: Facts) -> Check:
    version = facts.look.census.version
    untested = untested_words(facts.look)
    if untested is None:
        return ok("version", f"PostgreSQL {version}")
    hint = "it is watched; nothing is cancelled there without allow_untested: true on the cluster"
    return warning("version", f"PostgreSQL {version}: {untested}", hint)


def _pooler(facts: Facts) -> Check:
    if facts.look.census.behind_pooler:
        hint = "connect to the server itself: a pooler hands names on, and through one nothing can be acted on"
        return failed("pooler", "there is a pooler in between", hint)
    return ok("pooler", "connected to the server itself")


def _tls(facts: Facts) -> Check:
    found = facts.transport
    if facts.look.census.behind_pooler:
        return unknown("tls", "the server shows the pooler's connection, not ours", "connect to the server itself")
    if found.local:
        return ok("tls", "not needed over a Unix socket or the loopback interface")
    if found.gssapi:
        return ok("tls", "encrypted by GSSAPI")
    if not found.encrypted:
        saw = f"off (sslmode is {found.sslmode}): the traffic can be read and changed on the network"
        return warning("tls", saw, _verified(facts))
    return _encrypted(facts)


def _encrypted(facts: Facts) -> Check:
    found = facts.transport
    version = _TLS_VERSION.fullmatch(found.version or "")
    if version is None:
        return unknown("tls", f"encrypted by {found.version or 'a version that is not known'}", _verified(facts))
    if (int(version[1]), int(version[2] or 0)) < LEAST_TLS:
        return warning("tls", f"{found.version} is weak", "set ssl_min_protocol_version to TLSv1.2 or later")
    if found.sslmode == "verify-full":
        return ok("tls", f"{found.version}, and the server is verified")
    what = "the server's name is not verified" if found.sslmode == "verify-ca" else "the server is not verified"
    return warning("tls", f"{found.version}, but {what} (sslmode is {found.sslmode})", _verified(facts))


def _verified(facts: Facts) -> str:
    """What makes the connection verified, as a hint."""
    told = [f"{each.name}: {each.ca or 'where its certificate is from is not known here'}" for each in facts.services]
    where = f"; sslrootcert for {'; '.join(told)}" if told else ", with the server's CA as sslrootcert"
    return f"sslmode=verify-full{where}"


def _connections(facts: Facts) -> Check:
    census = facts.look.census
    share = census.connections_used / max(1, census.connections_max)
    saw = f"{census.connections_used} of {census.connections_max} connections are used"
    if share >= FULL:
        hint = "hardly anybody gets in any more: find who holds them before you raise the limit"
        return failed("connections", saw, hint)
    if share >= CROWDED:
        return warning("connections", saw, "retries pile up connections first")
    return ok("connections", saw)


def _connection_limit(facts: Facts) -> Check:
    own = facts.own
    if 0 <= own.connection_limit < own.sessions + 2:
        saw = f"{own.name} may have {own.connection_limit} and has {own.sessions} now"
        hint = "a replica, and this command, need one each"
        return warning("connection_limit", saw, hint, remedies=(Remedy(LimitConnections(own.name, 5)),))
    return ok("connection_limit", "none" if own.connection_limit < 0 else str(own.connection_limit))


def _idle_session(facts: Facts) -> Check:
    name = "idle_session_timeout"
    effective = facts.settings.effective(name, role=facts.own.name, database=None)
    value = effective.span(name)
    if value is not None and timedelta(0) < value < facts.silence:
        saw = f"{span(value)} by {effective.where}, and we may be silent for {span(facts.silence)}"
        return ok(name, f"{saw}: our session sets its own")
    return ok(name, "not shorter than our pauses")


def _lease(facts: Facts) -> Check:
    lease = facts.lease
    holder = "" if lease.holder is None else key_holder(lease.holder, facts.look.census)
    match lease.disarm_reason:
        case DisarmReason.NOT_LEADER if holder:
            return ok("lease", f"held by a role that may cancel, as a pgwatchdog does: {holder}")
        case DisarmReason.LEASE_TAKEN:
            hint = "no pgwatchdog can act while somebody else holds the lock; find out who takes it"
            return failed("lease", f"the key is held by somebody who is no pgwatchdog: {holder}", hint)
        case DisarmReason.OTHER_DATABASE | DisarmReason.BEHIND_POOLER:
            return warning("lease", EXPLAINED[lease.disarm_reason], "from here no pgwatchdog could ever lead")
    if lease.ignored:
        named = ", ".join(key_holder(each, facts.look.census) for each in lease.ignored)
        return ok("lease", f"nobody holds it; ignored, because it could cancel nothing: {named}")
    return ok("lease", "nobody holds it: no pgwatchdog leads now")


def _lease_database(facts: Facts) -> Check:
    """Whoever may connect there may take the lease's key, and then no pgwatchdog acts on the server."""
    if facts.lease.disarm_reason in {DisarmReason.OTHER_DATABASE, DisarmReason.BEHIND_POOLER}:
        return unknown("lease_database", "not connected to it", "connect to the database that lease_database names")
    if not facts.public_connects:
        return ok("lease_database", "not every role may connect to it")
    saw = "every role may connect to it, take the lease's key there, and so keep pgwatchdog from acting"
    hint = "before you arm the cluster: CREATE DATABASE pgwatchdog; REVOKE CONNECT ON DATABASE pgwatchdog FROM PUBLIC; "
    hint += "GRANT CONNECT to pgwatchdog's role; then name it in the dsn and in lease_database"
    return warning("lease_database", saw, hint)
