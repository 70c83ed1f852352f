"""Certificates for tests, made with the `openssl` program."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from watchdog.demo.server import server_identity

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA. `openssl` is the program's path; `certificate` is a file of PEM, as a system's bundle is one."""

    openssl: str
    certificate: Path
    key: Path

    @classmethod
    def make(cls, openssl: str, folder: Path, *, name: str) -> "Authority":
        """A new CA with its files in `folder`."""
        made = cls(openssl, folder / f"{name}.crt", folder / f"{name}.key")
        subject = ("-subj", f"/CN={name}", "-days", "2")
        made._run("req", "-x509", *_NEW_KEY, *subject, "-keyout", made.key, "-out", made.certificate)
        return made

    def issue(self, folder: Path, *, name: str, days: int = 2) -> tuple[Path, Path]:
        """A certificate for a host name or a role, and its key; one that has expired where `days` are negative."""
        request, names, certificate, key = (folder / f"{name}.{each}" for each in ("csr", "ext", "crt", "key"))
        names.write_text(f"subjectAltName=DNS:{name}\n")
        self._run("req", *_NEW_KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        signer = ("-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial")
        validity = ("-days", str(days), "-extfile", names)
        self._run("x509", "-req", "-in", request, *signer, *validity, "-out", certificate)
        key.chmod(0o600)
        return certificate, key

    def _run(self, *arguments: str | Path) -> None:
        subprocess.run([self.openssl, *arguments], check=True, capture_output=True)


def give_to_server(key: Path) -> None:
    """Make a key readable for the user that test servers run as."""
    identity = server_identity()
    if identity:
        os.chown(key, int(str(identity["user"])), int(str(identity["group"])))
