"""A document is read as it was at a time, and a time that nothing is kept from is named."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from click.testing import CliRunner

from lookfar.errors import InvalidArgument, NotFound
from lookfar.library import Library
from lookfar.serve.cli.main import cli
from lookfar.serve.tools.dates import end_of

pytestmark = pytest.mark.usefixtures("own_home")

NOW = datetime.now(UTC)


def ago(**time: float) -> int:
    return int((NOW - timedelta(**time)).timestamp()) * 10**9


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return tmp_path / "vault"


@pytest.fixture
def library(
    vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Library, Callable[..., None]]]:
    """A library, and a function that indexes texts as if it were some days ago."""
    clock = NOW

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            assert tz is UTC
            return clock

    for module in ("catalogue.generations", "sqlite.write_session"):
        monkeypatch.setattr(f"lookfar.store.{module}.datetime", Clock)
    vault.mkdir()
    settings = {"embed.provider": "hash", "index.workers": 1, "watch.enabled": False}
    with Library.open(vault, index_dir=tmp_path / "index", settings=settings) as opened:

        def index(days: float, **texts: str | None) -> None:
            nonlocal clock
            clock = NOW - timedelta(days=days)
            for name, text in texts.items():
                path = vault / f"{name}.md"
                if text is None:
                    path.unlink()
                    continue
                path.write_text(text)
                os.utime(path, (clock.timestamp(), clock.timestamp()))
            opened.index()

        yield opened, index


def test_a_document_is_read_as_it_was(library: tuple[Library, Callable[..., None]]) -> None:
    """Fails if the first text, the present one, or the heading of today is taken."""
    opened, index = library
    index(5, Plan="# Plan\n\n## Risks\n\nFog.\n", Old="# Old\n\nStays.\n")
    index(3, Plan="# Plan\n\n## Risks\n\nIce.\n")
    index(1, Plan="# Plan\n\nNo risks.\n", Old=None)
    assert opened.read("Plan#Risks", before=ago(days=4)).text == "## Risks\n\nFog.\n"
    then = opened.read("Plan", before=ago(days=2))
    assert (then.text, then.state) == ("# Plan\n\n## Risks\n\nIce.\n", "changed")
    assert then.warnings[0].startswith("as it was in generation 2, indexed ")
    assert then.warnings[0].endswith("; changed since")
    assert opened.read("Plan", before=ago(days=-1)).state == "same"
    assert opened.read("Old", before=ago(days=2)).state == "gone"
    with pytest.raises(NotFound, match="There was no document 'Old' in generation 3"):
        opened.read("Old", before=ago(days=0))
    with pytest.raises(InvalidArgument, match="before must be a time in nanoseconds"):
        opened.read("Plan", before="last week")  # type: ignore[arg-type]


def test_a_time_before_everything_that_is_kept_is_refused(
    library: tuple[Library, Callable[..., None]], vault: Path
) -> None:
    """Fails if the oldest text is passed off as that of an earlier time, or if a file that was
    not changed since is refused."""
    opened, index = library
    index(5, Plan="# Plan\n")
    with pytest.raises(NotFound, match=r"No text of 'Plan\.md' from before .* is kept") as refused:
        opened.read("Plan", before=ago(days=6))
    assert "index.retain_days" in refused.value.hint
    index(5, New="# New\n")
    with pytest.raises(NotFound, match=r"No text of 'New\.md' from before .* .generation 2.\."):
        opened.read("New", before=ago(days=6))
    with pytest.raises(NotFound, match="There was no document 'Nope'"):
        opened.read("Nope", before=ago(days=6))
    os.utime(vault / "Plan.md", ns=(ago(days=30), ago(days=30)))
    index(4)
    assert opened.read("Plan", before=ago(days=6)).text == "# Plan\n"


def test_a_period_ends_when_the_next_one_begins() -> None:
    noon = datetime.fromisoformat("2026-11-18T12:00:00")

    def local(text: str) -> int:
        return int(datetime.fromisoformat(text).timestamp()) * 10**9

    assert end_of("last week", "at", noon) == local("2026-11-16T00:00:00")
    assert end_of("yesterday", "at", noon) == local("2026-11-18T00:00:00")
    assert end_of(" ", "at") is None
    with pytest.raises(InvalidArgument, match="--at is not a date: 'soon'"):
        end_of("soon", "--at")


def test_the_command_says_of_when_a_text_is(
    library: tuple[Library, Callable[..., None]], vault: Path, tmp_path: Path
) -> None:
    opened, index = library
    index(5, Plan="# Plan\n\nFog.\n")
    index(1, Plan="# Plan\n\nIce.\n")
    opened.close()
    common = [str(vault), "--index-dir", str(tmp_path / "index"), "--set", "embed.provider=hash"]
    then = CliRunner().invoke(cli, ["read", "Plan", "--at", "3 days ago", *common])
    assert (then.exit_code, then.stdout) == (0, "# Plan\n\nFog.\n")
    assert "As it was in generation 1" in then.stderr
    refused = CliRunner().invoke(cli, ["read", "Plan", "--at", "2 months ago", *common])
    assert refused.exit_code == 3
    assert "No text of 'Plan.md' from before" in refused.stderr
    both = CliRunner().invoke(cli, ["read", "Plan", "--at", "today", "--embeds", *common])
    assert "--embeds and --at cannot be combined" in both.stderr
