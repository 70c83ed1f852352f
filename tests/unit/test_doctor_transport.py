"""The doctor on TLS: off, weak, not verified, or fine."""

from dataclasses import replace

import pytest
from test_doctor import VERIFIED, facts, one

from watchdog.core.doctor.checks import Status
from watchdog.core.doctor.facts import Transport
from watchdog.postgres.facts import is_local


def transport(**changes: object) -> Transport:
    return replace(VERIFIED, **changes)  # type: ignore[arg-type]  # names of fields


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        (VERIFIED, Status.OK, "TLSv1.3, and the server is verified"),
        (transport(version="TLSv1.2"), Status.OK, "TLSv1.2"),
        (transport(encrypted=False, version=None, sslmode="prefer"), Status.WARNING, "off (sslmode is prefer)"),
        (transport(sslmode="require"), Status.WARNING, "the server is not verified (sslmode is require)"),
        (transport(sslmode="prefer"), Status.WARNING, "the server is not verified (sslmode is prefer)"),
        (transport(sslmode="verify-ca"), Status.WARNING, "the server's name is not verified (sslmode is verify-ca)"),
        (transport(version="TLSv1.1"), Status.WARNING, "TLSv1.1 is weak"),
        (transport(version="TLSv1"), Status.WARNING, "TLSv1 is weak"),
        (transport(version=None), Status.UNKNOWN, "not known"),
        (transport(version="SSLv3"), Status.UNKNOWN, "SSLv3"),
        (transport(encrypted=False, version=None, gssapi=True), Status.OK, "GSSAPI"),
        (transport(encrypted=False, version=None, local=True, sslmode="prefer"), Status.OK, "loopback"),
    ],
)
def test_the_check_of_tls_tells_what_is_wrong_with_it(found: Transport, status: Status, words: str) -> None:
    check = one(facts(transport=found), "tls")
    assert (check.status, words in check.saw) == (status, True), check
    assert ("sslmode=verify-full" in check.hint) == (status is not Status.OK and "weak" not in check.saw)


def test_behind_a_pooler_nothing_is_known_of_our_own_connection() -> None:
    base = facts()
    people = replace(base.look.census, behind_pooler=True)
    assert one(replace(base, look=replace(base.look, census=people)), "tls").status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"rds.extensions": "x"}, "global-bundle.pem"),
        ({"alloydb.x": "y"}, "Google AlloyDB: where its certificate is from is not known here"),
        ({}, "with the server's CA as sslrootcert"),
    ],
)
def test_the_hint_names_the_services_own_certificate_or_says_that_it_is_not_known(
    parameters: dict[str, str], words: str
) -> None:
    check = one(facts(transport=transport(sslmode="require"), parameters=parameters), "tls")
    assert words in check.hint


@pytest.mark.parametrize(
    ("host", "address", "local"),
    [
        (b"/var/run/postgresql", b"", True),
        (b"@abstract", b"", True),
        (b"localhost", b"127.0.0.1", True),
        (b"db.internal", b"::1", True),
        (b"db.internal", b"10.0.0.1", False),
        (b"db.internal", b"", False),
        (b"/var/run/postgresql", b"10.0.0.1", False),
        (b"db.internal", b"fe80::1%eth0", False),
    ],
)
def test_only_a_socket_and_the_loopbacks_addresses_are_local(*, host: bytes, address: bytes, local: bool) -> None:
    assert is_local(host=host, address=address) is local
