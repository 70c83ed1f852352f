"""The system's root certificates for `sslrootcert=system`.

libpq then asks its OpenSSL for the roots, in the folder that was compiled in. The libpq inside psycopg's binary wheel
has one that no system has, so every certificate would be refused. Where SSL_CERT_FILE or SSL_CERT_DIR is set, OpenSSL
takes that and nothing is done here.

Passing the bundle's path as `sslrootcert` together with `sslmode=verify-full` means the same: libpq itself allows no
other sslmode beside `system`. One thing is stricter: beside a file, revocation lists (`sslcrl`, `sslcrldir`,
`~/.postgresql/root.crl`) are read, beside `system` they are not. SSL_CERT_FILE is not set in our own environment,
because password commands inherit it and name look-ups read the environment in other threads.
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
    """The parameters of libpq that replace `sslrootcert=system`; empty where nothing is to be replaced.

    That is also so where a weaker sslmode is given: libpq refuses it.

    Raises:
        FileNotFoundError: there is no bundle; the message names where it was looked for.

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
    """True where the roots are to be the system's, by the string or by libpq's variable."""
    return (parameters.get("sslrootcert") or env.get("PGSSLROOTCERT")) == "system"


def is_weak(parameters: Parameters, *, env: Mapping[str, str]) -> bool:
    """True where an sslmode is given that libpq refuses beside the system's roots."""
    mode = parameters.get("sslmode") or env.get("PGSSLMODE") or "verify-full"
    return asks_for_system(parameters, env=env) and mode != "verify-full"


def _pythons_own(bundles: Sequence[Path]) -> list[Path]:
    """Where Python's OpenSSL would look, for other layouts; not where the places are the caller's."""
    file = ssl.get_default_verify_paths().cafile
    return [Path(file)] if file is not None and bundles is BUNDLES else []
