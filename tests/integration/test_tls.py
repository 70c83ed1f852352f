"""TLS: the system's root certificates are found, and a handshake that fails is told from everything else."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest
from support.certificates import Authority, give_to_server
from support.fakes import fake_server
from support.matrix import ROW, VERSIONS, binaries_of
from support.servers import TestServer, make_server

from watchdog.core.observed.reasons import Reason
from watchdog.demo.guardian import Guardian
from watchdog.errors import LedgerError, ReadError
from watchdog.ledger.store import Store
from watchdog.postgres.connection import Connection
from watchdog.postgres.dial import Dialer
from watchdog.postgres.dsn import check_dsn, parameters_of
from watchdog.system_roots import BUNDLES, system_roots

MAJOR = ROW or max(VERSIONS)
NOWHERE = Path("/nonexistent/bundle.crt")


@pytest.fixture(autouse=True)
def _no_roots_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(public_folder: Path) -> Path:
    public_folder.chmod(0o755)
    return public_folder


@pytest.fixture
def authority(folder: Path, tool: Callable[[str], str]) -> Authority:
    return Authority.make(tool("openssl"), folder, name="ca")


@pytest.fixture
def start_server(
    authority: Authority, folder: Path, guardian: Guardian, missing: Callable[[str], NoReturn]
) -> Iterator[Callable[..., TestServer]]:
    """Start a server with TLS and a certificate for `localhost`; the embedded one is built without TLS."""
    if not binaries_of(MAJOR).exists():
        missing(f"PostgreSQL {MAJOR} is not there: make matrix-binaries")
    started: list[TestServer] = []

    def start(*, days: int = 2) -> TestServer:
        certificate, key = authority.issue(folder, name="localhost", days=days)
        give_to_server(key)
        files = {"ssl_cert_file": certificate, "ssl_key_file": key, "ssl_ca_file": authority.certificate}
        settings = {"ssl": "on", **{name: str(file) for name, file in files.items()}}
        started.append(make_server(guardian=guardian, settings=settings, major=MAJOR))
        return started[-1]

    yield start
    for each in started:
        each.embedded.stop()


async def connected(
    dsn: str, *, bundles: Sequence[Path] = (NOWHERE,), env: Mapping[str, str] | None = None
) -> Connection:
    dialer = Dialer(env={} if env is None else env, bundles=bundles)
    return await dialer.connect(parameters_of(dsn, env={}), timeout=5.0)


async def refused(dsn: str, *, bundles: Sequence[Path] = (NOWHERE,), env: Mapping[str, str] | None = None) -> ReadError:
    with pytest.raises(ReadError) as caught:
        await connected(dsn, bundles=bundles, env=env)
    assert "\n" not in str(caught.value)
    return caught.value


def dsn_of(server: TestServer, **more: object) -> str:
    given = {"host": "localhost", "hostaddr": "127.0.0.1", "sslrootcert": "system", **more}
    return " ".join([server.dsn(), *(f"{key}={value}" for key, value in given.items())])


async def test_the_systems_roots_verify_the_server_and_its_name(
    start_server: Callable[..., TestServer], authority: Authority, folder: Path
) -> None:
    server, bundles = start_server(), (NOWHERE, authority.certificate)
    connection = await connected(dsn_of(server), bundles=bundles)
    assert connection.pgconn.ssl_in_use
    await connection.close()

    other_name = await refused(dsn_of(server, host="other.example"), bundles=bundles)
    assert other_name.reason is Reason.TLS
    stranger = Authority.make(authority.openssl, folder, name="stranger")
    other_authority = await refused(dsn_of(server), bundles=(stranger.certificate,))
    assert other_authority.reason is Reason.TLS
    assert "sslrootcert" in str(other_authority), "what to look at"


async def test_the_systems_roots_may_be_asked_for_by_libpqs_variable(
    start_server: Callable[..., TestServer], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = dsn_of(start_server()).replace(" sslrootcert=system", "")
    monkeypatch.setenv("PGSSLROOTCERT", "system")
    connection = await connected(dsn, bundles=(authority.certificate,), env=os.environ)
    await connection.close()


async def test_a_certificate_file_of_the_environment_is_left_to_openssl(
    start_server: Callable[..., TestServer], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    connection = await connected(dsn_of(start_server()), env=os.environ)
    await connection.close()


async def test_the_ledger_finds_the_systems_roots_as_well(
    start_server: Callable[..., TestServer], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    embedded = server.embedded
    url = f"postgresql://postgres:{embedded.password}@localhost:{embedded.port}/postgres?sslrootcert=system"
    monkeypatch.setattr("watchdog.ledger.engine.BUNDLES", (authority.certificate,))
    with closing(Store(url)) as store:
        store.open()
    monkeypatch.setattr("watchdog.ledger.engine.BUNDLES", (NOWHERE,))
    with closing(Store(url)) as store, pytest.raises(LedgerError, match=str(NOWHERE)):
        store.open()


async def test_an_expired_certificate_fails_in_the_handshake(
    start_server: Callable[..., TestServer], authority: Authority
) -> None:
    error = await refused(dsn_of(start_server(days=-1)), bundles=(authority.certificate,))
    assert error.reason is Reason.TLS


async def test_a_client_certificate_that_the_server_does_not_trust_is_a_matter_of_tls(
    start_server: Callable[..., TestServer], authority: Authority, folder: Path
) -> None:
    """With TLS 1.3 the refusal comes after our side of the handshake is done."""
    stranger = Authority.make(authority.openssl, folder, name="stranger")
    certificate, key = stranger.issue(folder, name="pgwatchdog")
    dsn = dsn_of(start_server(), sslcert=certificate, sslkey=key)
    assert (await refused(dsn, bundles=(authority.certificate,))).reason is Reason.TLS


async def test_what_the_server_refuses_over_tls_keeps_its_own_reason(
    start_server: Callable[..., TestServer], authority: Authority
) -> None:
    server, bundles = start_server(), (authority.certificate,)
    assert (await refused(dsn_of(server, password="wrong"), bundles=bundles)).reason is Reason.AUTHENTICATION
    assert (await refused(dsn_of(server, dbname="nowhere"), bundles=bundles)).reason is Reason.NO_DATABASE
    assert (await refused(dsn_of(server, port=1), bundles=bundles)).reason is Reason.UNREACHABLE


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
async def test_a_server_without_tls_where_it_is_required_is_a_matter_of_tls(server: TestServer, mode: str) -> None:
    assert (await refused(f"{server.dsn()} sslmode={mode}")).reason is Reason.TLS


@pytest.mark.parametrize(
    ("answer", "reason"), [(b"", Reason.UNREACHABLE), (b"E", Reason.UNREACHABLE), (b"S", Reason.TLS)]
)
async def test_a_server_that_closes_is_told_by_its_answer_to_the_request_for_tls(answer: bytes, reason: Reason) -> None:
    async def closes(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async with fake_server(closes) as port:
        assert (await refused(f"host=127.0.0.1 port={port} user=x sslmode=require")).reason is reason


async def test_without_a_bundle_the_error_names_where_it_was_looked_for() -> None:
    error = await refused("host=localhost user=x sslrootcert=system", bundles=(NOWHERE, Path("/nonexistent/other")))
    assert error.reason is Reason.TLS
    assert "/nonexistent/bundle.crt, /nonexistent/other" in str(error)


async def test_the_systems_roots_go_with_no_weaker_mode() -> None:
    dsn = "host=localhost user=x sslrootcert=system sslmode=require"
    assert (await refused(dsn)).reason is Reason.CONFIGURATION
    assert "verify-full" in (check_dsn(dsn) or "")
    assert check_dsn("host=localhost sslrootcert=system") is None


@pytest.mark.parametrize("layout", BUNDLES, ids=str)
def test_the_bundle_of_every_layout_is_found(layout: Path, tmp_path: Path) -> None:
    places = [tmp_path / each.relative_to("/") for each in BUNDLES]
    bundle = tmp_path / layout.relative_to("/")
    bundle.parent.mkdir(parents=True)
    bundle.touch()
    wanted = {"sslrootcert": "system"}
    assert system_roots(wanted, env={}, bundles=places) == {"sslrootcert": str(bundle), "sslmode": "verify-full"}
    assert system_roots(wanted, env={"SSL_CERT_DIR": "/certs"}, bundles=places) == {}
    assert system_roots({"sslrootcert": "/own.crt"}, env={}, bundles=places) == {}
    assert system_roots({**wanted, "sslmode": "require"}, env={}, bundles=places) == {}, "libpq refuses it"
