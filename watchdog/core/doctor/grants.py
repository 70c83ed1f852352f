"""The SQL that creates a role with the least privileges, for dry run and for acting. Each grant states its reason.

This module knows no server: it makes text from a role name and a version.
"""

import re
import textwrap

from watchdog.core.observed.services import Service

WIDTH = 117
RESERVED_FROM = 160_000
"""First version with the role pg_use_reserved_connections."""

_CREATE = """\
-- The role that pgwatchdog connects as. Run it as superuser (or CREATEROLE with the grants named here), once per
-- server; replicas get it by replication. Put a password in, or create it without one and use certificates.
CREATE ROLE {role} LOGIN PASSWORD 'change me' CONNECTION LIMIT 5;
"""
_MONITOR = """\
-- To see what other roles' sessions do. No table becomes readable by it.
GRANT pg_monitor TO {role};
"""
_RESERVED = """\
-- To get in when all ordinary connections are taken, which is when it is needed most. Takes effect with
-- reserved_connections above 0, and that needs a restart of the server.
GRANT pg_use_reserved_connections TO {role};
"""
_SIGNAL = """\
-- To cancel other roles' queries: every role's but superusers'.
GRANT pg_signal_backend TO {role};
"""
_MEMBER = """\
-- To cancel the queries of these roles alone. Membership also lets it do whatever they may, so take it only where
-- pg_signal_backend reaches too far.
"""

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def grants(*, role: str, version: int, acting: bool, only: tuple[str, ...] = (), service: Service | None = None) -> str:
    """The SQL for `role` on a server of `version` (160000 for PostgreSQL 16).

    If `acting`, it also grants the right to cancel. `only` restricts it to the queries of these roles, by membership in
    them. For a managed `service` it begins with a comment that says what differs there.
    """
    name = _quoted(role)
    parts = [] if service is None else [_of_service(service)]
    parts += [_CREATE, _MONITOR]
    if version >= RESERVED_FROM:
        parts.append(_RESERVED)
    if acting and not only:
        parts.append(_SIGNAL)
    text = "\n".join(part.format(role=name) for part in parts)
    if acting and only:
        text += "\n" + _MEMBER + "".join(f"GRANT {_quoted(each)} TO {name};\n" for each in only)
    return text


def _of_service(service: Service) -> str:
    rights = service.rights or "who may grant these rights there is not known here, see its documentation"
    told = [f"{service.name}: {rights}."]
    if service.reserved is not None:
        told.append(f"{service.reserved.setting}: {service.reserved.hint}.")
    lines = [line for each in told for line in textwrap.wrap(each, width=WIDTH, break_on_hyphens=False)]
    return "".join(f"-- {line}\n" for line in lines).replace("{", "{{").replace("}", "}}")


def _quoted(identifier: str) -> str:
    return identifier if _PLAIN.fullmatch(identifier) else '"' + identifier.replace('"', '""') + '"'
