"""What is shipped for deployment: valid by offline checks, and as far as possible run for real."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from support.processes import command, daemon_process
from support.servers import TestServer, start, until
from support.watching import answer

from watchdog.demo.guardian import Guardian

pytestmark = pytest.mark.acceptance
ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent


def documents(name: str) -> list[dict[str, Any]]:  # whatever the manifests hold
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def pods() -> list[dict[str, Any]]:  # as above
    return [
        each["spec"]["template"]["spec"]
        for name in ("sidecar.yaml", "deployment.yaml")
        for each in documents(name)
        if each["kind"] in {"StatefulSet", "Deployment"}
    ]


@pytest.mark.parametrize(
    "check",
    [
        ["hadolint", "Dockerfile"],
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose/compose.yaml"],
        ["kubernetes-validate", "--strict", "deploy/kubernetes/sidecar.yaml", "deploy/kubernetes/deployment.yaml"],
    ],
    ids=lambda check: check[0],
)
def test_the_offline_checks_accept_it(check: list[str]) -> None:
    done = subprocess.run([BIN / check[0], *check[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pods_are_restricted_and_know_nothing_of_the_cluster_around_them() -> None:
    for pod in pods():
        assert pod["enableServiceLinks"] is False
        assert pod["automountServiceAccountToken"] is False
        [ours] = [each for each in (*pod.get("initContainers", []), *pod["containers"]) if each["name"] == "pgwatchdog"]
        context = ours["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert context["runAsNonRoot"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_sidecar_is_native_and_has_no_readiness_probe() -> None:
    [sidecar] = pods()[0]["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert "readinessProbe" not in sidecar


def test_the_sidecars_environment_starts_a_daemon_just_as_the_manifest_gives_it(
    server: TestServer, tmp_path: Path, guardian: Guardian
) -> None:
    [sidecar] = pods()[0]["initContainers"]
    env = {each["name"]: in_pod(each, pod="orders-0") for each in sidecar["env"]}
    secret = tmp_path / "password"
    secret.write_text(server.embedded.password)
    env["PGWATCHDOG_PASSWORD_FILE"] = str(secret)  # the mount
    env["PGPORT"] = str(server.embedded.port)  # in the pod the server has the usual one
    assert sidecar["args"] == ["run"]
    with daemon_process(tmp_path, guardian=guardian, config=None, env=env) as daemon:
        until(lambda: daemon.metrics().get('pgwatchdog_up{server="orders-0"}') == 1, what="a look")


def in_pod(variable: dict[str, Any], *, pod: str) -> str:  # as above
    """The value that the variable has in the pod."""
    source = variable.get("valueFrom")
    assert source in (None, {"fieldRef": {"fieldPath": "metadata.name"}})
    return pod if source is not None else str(variable["value"])


def test_each_replica_of_the_sidecar_has_a_cluster_name_of_its_own() -> None:
    [sidecar] = pods()[0]["initContainers"]
    names = {
        in_pod(each, pod=pod)
        for pod in ("orders-0", "orders-1")
        for each in sidecar["env"]
        if each["name"] == "PGWATCHDOG_NAME"
    }
    assert names == {"orders-0", "orders-1"}


def test_the_configuration_in_the_manifests_is_good(tmp_path: Path) -> None:
    [config] = [each for each in documents("deployment.yaml") if each["kind"] == "ConfigMap"]
    file = tmp_path / "pgwatchdog.yaml"
    for text in (config["data"]["pgwatchdog.yaml"], (DEPLOY / "compose" / "pgwatchdog.yaml").read_text()):
        file.write_text(text)
        done = command("check", "-c", str(file))
        assert done.returncode == 0, done.stderr


def test_the_grants_make_a_role_that_sees_every_session_and_no_table(own_server: TestServer) -> None:
    own_server.run("DROP ROLE pgwatchdog")
    with own_server.admin() as admin:
        name = "dry-run.sql" if own_server.major >= 16 else "dry-run-14-15.sql"
        admin.execute((DEPLOY / "sql" / name).read_bytes().replace(b"change me", b"changed"))
    dsn = f"{own_server.embedded.dsn(role='pgwatchdog')} password=changed"
    done = command("report", dsn, "--budget", "15min")
    assert (done.returncode, "Nothing found." in done.stdout) == (0, True), done.stdout
    with psycopg.connect(dsn, autocommit=True) as watchdog:
        for statement in (b"SELECT * FROM accounts", b"UPDATE accounts SET balance = 0", b"CREATE TABLE x (n int)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                watchdog.execute(statement)


def test_the_grant_for_enforcement_lets_it_cancel_everybody_but_superusers(own_server: TestServer) -> None:
    own_server.run("DROP ROLE pgwatchdog")
    with own_server.admin() as admin:
        name = "enforce.sql" if own_server.major >= 16 else "enforce-14-15.sql"
        admin.execute((DEPLOY / "sql" / name).read_bytes().replace(b"change me", b"changed"))
    dsn = f"{own_server.embedded.dsn(role='pgwatchdog')} password=changed"
    with (
        psycopg.connect(own_server.dsn("web_app"), autocommit=True) as ordinary,
        own_server.admin() as boss,
        psycopg.connect(dsn, autocommit=True) as watchdog,
    ):
        [pid, superuser] = [start(each, "SELECT pg_sleep(60)", own_server) for each in (ordinary, boss)]
        assert watchdog.execute("SELECT pg_cancel_backend(%s)", (pid,)).fetchone() == (True,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            watchdog.execute("SELECT pg_cancel_backend(%s)", (superuser,))
        boss.cancel()
        assert [answer(each) for each in (ordinary, boss)] == ["57014", "57014"]


def test_the_folder_of_the_disarm_file_is_there_in_the_pod_and_on_the_host_and_the_runbook_names_it() -> None:
    [config] = [each for each in documents("deployment.yaml") if each["kind"] == "ConfigMap"]
    file = Path(yaml.safe_load(config["data"]["pgwatchdog.yaml"])["policy"]["disarm_file"])
    pod = pods()[1]
    mounts = {each["mountPath"]: each for each in pod["containers"][0]["volumeMounts"]}
    [volume] = [each for each in pod["volumes"] if each["name"] == mounts[str(file.parent)]["name"]]
    assert "emptyDir" in volume
    assert not mounts[str(file.parent)].get("readOnly")
    unit = (DEPLOY / "systemd" / "pgwatchdog.service").read_text().splitlines()
    assert f"RuntimeDirectory={file.parent.relative_to('/run')}" in unit
    assert "RuntimeDirectoryPreserve=yes" in unit
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    assert f"`kubectl exec deploy/pgwatchdog -- touch {file}`" in runbook
    assert f"`touch {file}`" in runbook


def test_the_systemd_unit_is_hardened() -> None:
    text = (DEPLOY / "systemd" / "pgwatchdog.service").read_text()
    for setting in ("DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n"):
        assert setting in text
