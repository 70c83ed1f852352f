"""The system's root certificates for `sslrootcert=system`.

With this value libpq uses the default directory of its OpenSSL, which is compiled in. The libpq inside psycopg's binary
wheel has a directory that exists on no system, so every certificate would be refused. Therefore the path of the
system's bundle is passed as `sslrootcert`, with `sslmode=verify-full`. If SSL_CERT_FILE or SSL_CERT_DIR is set, OpenSSL
uses that, and nothing is replaced.

This is equivalent: with `system`, libpq allows no other sslmode. It differs in one point, which is stricter: with a
file libpq also reads revocation lists (`sslcrl`, `sslcrldir`, `~/.postgresql/root.crl`). Setting SSL_CERT_FILE in our
own process would change the environment of password commands, and other threads read the environment in name look-ups.
"""

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),  # Debian, Alpine
    Path("/etc/pki/tls/certs/ca-bundle.crt"),  # Red Hat
    Path("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),  # Red Hat 10, where the one above is gone
    Path("/etc/ssl/ca-bundle.pem"),  # SUSE
    Path("/etc/ssl/cert.pem"),  # Alpine without its package of certificates
)

Parameters = Mapping[str, str]


def system_roots(parameters: Parameters, *, env: Mapping[str, str], bundles: Sequence[Path] = BUNDLES) -> Parameters:
    """The libpq parameters that replace `sslrootcert=system`. Empty if nothing is to be replaced.

    With a weaker sslmode nothing is replaced, because libpq refuses the combination.

    Raises:
        FileNotFoundError: there is no bundle. The message names the files that were tried.

    """
    if not asks_for_system(parameters, env=env) or is_weak(parameters, env=env):
        return {}
    if env.get("SSL_CERT_FILE") or env.get("SSL_CERT_DIR"):
        return {}
    found = next((each for each in (*bundles, *_pythons_own(bundles)) if each.is_file()), None)
    if found is None:
        looked = ", ".join(map(str, bundles))
        raise FileNotFoundError(
            f"sslrootcert=system: the system's root certificates are in none of {looked}; install ca-certificates, "
            "or set SSL_CERT_FILE"
        )
    return {"sslrootcert": str(found), "sslmode": "verify-full"}


def asks_for_system(parameters: Parameters, *, env: Mapping[str, str]) -> bool:
    """True if the connection string, or PGSSLROOTCERT, asks for the system's roots."""
    return (parameters.get("sslrootcert") or env.get("PGSSLROOTCERT")) == "system"


def is_weak(parameters: Parameters, *, env: Mapping[str, str]) -> bool:
    """True if the sslmode is one that libpq refuses together with the system's roots."""
    mode = parameters.get("sslmode") or env.get("PGSSLMODE") or "verify-full"
    return asks_for_system(parameters, env=env) and mode != "verify-full"


def _pythons_own(bundles: Sequence[Path]) -> list[Path]:
    """The bundle of Python's own OpenSSL, for other layouts. Not used with a caller's own list."""
    file = ssl.get_default_verify_paths().cafile
    return [Path(file)] if file is not None and bundles is BUNDLES else []
