"""The files of a team server say what the program understands, and the image what it promises.

``scripts/container.py`` runs the steps of the Dockerfile and checks the promises in a real root.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from lookfar import __version__, config
from lookfar.serve.cli.main import cli
from lookfar.serve.http.visits import PROBES
from script_modules import load_script

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


def test_every_variable_is_a_setting(services: dict[str, Any]) -> None:
    known = {setting.variable for setting in config.describe()}
    known |= {config.TOKENS_VARIABLE, config.DATA_VARIABLE}
    named = {
        name
        for service in ("indexer", "front")
        for name in services[service]["environment"]
        if name.startswith("LOOKFAR_")
    }
    assert {"LOOKFAR_STORE_URL", "LOOKFAR_STORE_READ_ONLY", "LOOKFAR_TOKENS"} <= named
    assert named <= known
    image = re.findall(r"\b(LOOKFAR_\w+)=", (ROOT / "Dockerfile").read_text())
    assert set(image) <= known


def parse_command(name: str, *arguments: str) -> None:
    """Parse a command line as ``lookfar`` does; a wrong one raises."""
    # With the settings of the group: a command keeps the help option that it is first given, which
    # the tests of the documentation compare.
    group = click.Context(cli, info_name="lookfar", **cli.context_settings)
    command = cli.get_command(group, name)
    assert command is not None
    command.make_context(name, list(arguments), parent=group)


def test_every_command_line_is_understood(services: dict[str, Any]) -> None:
    for service in ("indexer", "front"):
        name, *arguments = services[service]["command"]
        parse_command(name, *arguments)


def test_front_ends_and_the_indexer_name_the_same_folder(services: dict[str, Any]) -> None:
    """A collection is known by its path."""
    assert services["front"]["command"][1] == services["indexer"]["command"][1]
    mounted, _ = services["indexer"]["volumes"]
    assert mounted.split(":")[-2:] == [services["indexer"]["command"][1], "ro"]
    assert services["front"]["volumes"] == ["/data"], "each has a copy of its own"


def test_the_address_passes_and_holds_no_password(services: dict[str, Any]) -> None:
    url = services["front"]["environment"]["LOOKFAR_STORE_URL"]
    assert config.load(None, {}, {"LOOKFAR_STORE_URL": url}).store.url == url


def test_whatever_has_to_be_set_is_in_the_example(services: dict[str, Any]) -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    wanted = set(re.findall(r"\$\{(\w+)", text))
    example = {line.partition("=")[0] for line in (DEPLOY / ".env.example").read_text().split()}
    assert wanted == example


def test_the_role_is_one_that_row_security_binds() -> None:
    script = (DEPLOY / "init.sh").read_text()
    assert "EXTENSION" not in script
    created = shlex.split(re.findall(r"CREATE ROLE (.*);", script)[0].replace("'", ""))
    assert created[0] == "lookfar"
    assert not {"SUPERUSER", "BYPASSRLS"} & set(created)


# --- the image --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stage() -> Any:
    """The last stage of the Dockerfile, which is the image."""
    script = load_script("scripts/container.py")
    return script.read_stages((ROOT / "Dockerfile").read_text())[-1]


def test_the_image_runs_as_a_user_and_writes_to_one_volume(stage: Any) -> None:
    assert int(stage.last("USER")) > 0
    assert stage.last("VOLUME") == "/data"
    environment = stage.environment()
    assert environment["HOME"] == environment[config.DATA_VARIABLE] == "/data"
    assert json.loads(stage.last("ENTRYPOINT")) == ["lookfar"]
    installed = [text for name, text in stage.steps if name == "RUN"]
    assert any(re.search(r"apt-get install .*\bgit\b", text) for text in installed)


def test_checking_an_image_that_was_not_built_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = load_script("scripts/container.py")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("os.geteuid", lambda: 0, raising=False)
    monkeypatch.setattr(sys, "argv", ["container.py", str(tmp_path), "--checks"])
    with pytest.raises(SystemExit, match="Nothing was built in"):
        script.main()
    (tmp_path / "root").mkdir()
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/mmdebstrap")
    with pytest.raises(SystemExit, match="exists"):
        script.make_root(tmp_path / "root")


def test_the_image_names_itself_and_its_server(stage: Any) -> None:
    labels = stage.labels()
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert labels["org.opencontainers.image.description"] == about["description"]
    assert labels["org.opencontainers.image.licenses"] == about["license"]
    assert labels["org.opencontainers.image.source"] == about["urls"]["Source"]
    assert labels["io.modelcontextprotocol.server.name"] == "io.github.lookfar/lookfar"


def test_the_health_check_asks_the_server(stage: Any) -> None:
    program, option, code = stage.health_check()
    assert (program, option) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    (address,) = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", code)
    assert address == (stage.last("EXPOSE"), "/livez")
    assert address[1] in PROBES
    assert int(address[0]) == config.load(None, {}, {}).serve.port


def test_the_health_check_does_not_ask_a_proxy(stage: Any) -> None:
    """Docker gives its containers the proxy of the machine, which cannot reach their loopback."""

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/livez" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    _, option, code = stage.health_check()
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code = code.replace(f":{stage.last('EXPOSE')}/", f":{server.server_port}/")
        kept = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
        env = {**kept, "http_proxy": "http://127.0.0.1:9"}
        done = subprocess.run([sys.executable, option, code], env=env, capture_output=True)
        server.shutdown()
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("service", ["indexer", "front"])
def test_services_run_with_little_rights(services: dict[str, Any], service: str) -> None:
    row = services[service]
    assert row["read_only"] is True
    assert row["cap_drop"] == ["ALL"]
    assert "/tmp" in row["tmpfs"]
    writable = [str(entry) for key in ("tmpfs", "volumes") for entry in row.get(key, ())]
    assert any("/data" in entry for entry in writable)
    if row["command"][0] != "serve":
        assert row["healthcheck"] == {"disable": True}


# --- Kubernetes -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def objects() -> dict[str, list[dict[str, Any]]]:
    """The objects of the example for Kubernetes, by kind."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for shape in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()):
        kinds.setdefault(shape["kind"], []).append(shape)
    return kinds


@pytest.fixture(scope="module")
def pod(objects: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    shape: dict[str, Any] = objects["Deployment"][0]["spec"]["template"]["spec"]
    return shape


def test_the_objects_fit_together(
    objects: dict[str, list[dict[str, Any]]], pod: dict[str, Any], stage: Any
) -> None:
    (deployment,), (service,) = objects["Deployment"], objects["Service"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    # Two processes must not write one index.
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    claims = {volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"][:2]}
    assert claims == {claim["metadata"]["name"] for claim in objects["PersistentVolumeClaim"]}
    (container,) = pod["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"data": stage.last("VOLUME"), "documents": "/docs", "temporary": "/tmp"}
    assert {volume["name"] for volume in pod["volumes"]} == mounted.keys()
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    assert ports[service["spec"]["ports"][0]["targetPort"]] == stage.last("EXPOSE")
    assert container["image"] == f"ghcr.io/lookfar/lookfar:{__version__}"


def test_the_pod_has_few_rights(pod: dict[str, Any], stage: Any) -> None:
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == int(stage.last("USER"))
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"].keys() == {"requests", "limits"}


def test_the_pod_is_probed_and_ends_in_time(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    variables = {row["name"]: row.get("value", "") for row in container["env"]}
    known = {setting.variable for setting in config.describe()} | {config.TOKENS_VARIABLE}
    assert variables.keys() <= known
    tokens = variables.pop(config.TOKENS_VARIABLE)
    assert not tokens  # From a secret.
    serve = config.load(None, {}, variables).serve
    for name, path in (("startup", "/livez"), ("liveness", "/livez"), ("readiness", "/readyz")):
        request = container[f"{name}Probe"]["httpGet"]
        assert request["path"] == path
        assert path in PROBES
        # By default it is the address of the pod, which is wrong if a service mesh forwards it.
        assert request["httpHeaders"] == [{"name": "Host", "value": "localhost"}]
    assert serve.drain_seconds > container["readinessProbe"]["periodSeconds"]
    assert pod["terminationGracePeriodSeconds"] > serve.drain_seconds + serve.grace_seconds
    parse_command(*container["args"])


def test_the_objects_are_valid(objects: dict[str, list[dict[str, Any]]]) -> None:
    """Run in the nightly lane, where ``kubernetes-validate`` with its schemas is installed."""
    schemas = pytest.importorskip("kubernetes_validate")
    for shapes in objects.values():
        for shape in shapes:
            schemas.validate(shape, schemas.latest_version(), strict=True)
