"""Metrics as Prometheus reads them, and the dashboard that shows them.

Seen to fail with a metric that was declared twice, and with a panel for one that does not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from lookfar.serve.http.metrics import Family, Metrics
from serve.http.asking import Served, command, serving

DEPLOY = Path(__file__).parents[3] / "deploy"


def read(text: str) -> dict[str, Any]:
    """The families by name; a counter without its ending, as the parser names it."""
    found: dict[str, Any] = {}
    for family in text_string_to_metric_families(text):
        assert family.name not in found, f"{family.name} is declared twice"
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram"), family.name
        found[family.name] = family
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with workers and tokens, one of them for a single collection."""
    place = tmp_path_factory.mktemp("metrics")
    secret = place / "secret"
    secret.mkdir()
    (secret / "vault.md").write_text("# Vault\n\nThe password is swordfish.\n")
    env = {"LOOKFAR_TOKENS": "t" * 32, "LOOKFAR_SERVE_OAUTH_ISSUER": "http://127.0.0.1:9"}
    with serving(place, secret, "--metrics", "--workers", 2, env=env) as running:
        for query in ("harbour", "lantern"):
            assert running.tool("search", "t" * 32, query=query).status == 200
        yield running


@pytest.fixture(scope="module")
def text(served: Served) -> str:
    answer = served.ask("GET", "/metrics", token="t" * 32)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return answer.body.decode()


def value(families: dict[str, Any], name: str, **labels: str) -> float:
    [sample] = [
        sample
        for family in families.values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return float(sample.value)


def test_prometheus_reads_every_line(text: str) -> None:
    families = read(text)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) == sum(len(family.samples) for family in families.values())
    assert value(families, "lookfar_tool_seconds_count", tool="search") == 2
    assert value(families, "lookfar_documents", collection="docs") > 3
    assert value(families, "lookfar_documents", collection="secret") == 1
    assert value(families, "lookfar_generation", collection="docs") >= 1
    assert value(families, "lookfar_index_readable", collection="docs") == 1
    assert value(families, "lookfar_index_failed", collection="docs") == 0
    assert value(families, "lookfar_watcher_running", collection="docs") in (0, 1)
    assert value(families, "lookfar_workers_wanted") == 2
    assert value(families, "lookfar_issuer_fetches_total", result="ok") == 0
    created = value(families, "lookfar_generation_created_timestamp_seconds", collection="docs")
    assert value(families, "process_start_time_seconds") <= created + 60
    assert families["lookfar_watcher_passes"].type == "counter"
    assert families["lookfar_build_info"].samples[0].labels["version"]


def test_a_token_for_one_collection_sees_only_that(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    made = command(home, "tokens", "add", "scraper", "--collection", "docs")
    secret = tmp_path / "secret"
    secret.mkdir()
    with serving(tmp_path, secret, "--metrics") as served:
        assert served.ask("GET", "/metrics").status == 401
        answer = served.ask("GET", "/metrics", token=made.stdout.split()[0])
        assert answer.status == 200
        assert b"docs" in answer.body
        assert b"secret" not in answer.body


def test_values_and_labels_are_written_as_prometheus_wants() -> None:
    strange = 'a"b\\c\nd é'
    samples = [((("collection", strange),), 0.1), ((("collection", "b"),), 1e300)]
    written = Metrics().text([Family("lookfar_x", "Help.", "gauge", samples)])
    family = read(written)["lookfar_x"]
    assert [sample.value for sample in family.samples] == [0.1, 1e300]
    assert family.samples[0].labels["collection"] == strange
    assert "lookfar_y" not in Metrics().text([Family("lookfar_y", "Help.", "gauge", [])])


def test_the_dashboard_shows_metrics_that_exist(text: str) -> None:
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    served = set(re.findall(r"^([a-z_]+)[{ ]", text, re.MULTILINE))
    identifiers = [panel["id"] for panel in board["panels"]]
    assert len(identifiers) == len(set(identifiers))
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) > 15
    for query in queries:
        assert query.count("(") == query.count(")"), query
        named = set(re.findall(r"\b(?:lookfar|process)_[a-z_]+", query))
        assert named, query
        assert named <= served | {"lookfar_refused_total"}, query
        if "5.." in query:  # A server that is not ready answers a probe with 503.
            assert query.count('route!~"/livez|/readyz"') == query.count("lookfar_requests_total")
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["description"]


def test_the_example_for_prometheus_asks_with_a_token() -> None:
    [job] = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert job["authorization"]["credentials_file"]
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert job["dns_sd_configs"][0]["names"][0] in services
