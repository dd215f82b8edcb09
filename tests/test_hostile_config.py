"""Hostile project files: every setting with hostile values.

Seen to fail when a project file was read like the user's own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import amount, report
from lookfar import config
from lookfar.config import describe
from lookfar.errors import InvalidConfig
from processor_time import processor_time_below

VALUES = [
    *("'/etc'", "'../outside'", "'~/.ssh'", "'$(touch pwned)'", "'`touch pwned`'", "'|sh'"),
    *("'https://evil.example/v1'", "'http://169.254.169.254/'", "'file:///etc/passwd'", "'-rf'"),
    *("'\\\\host\\share'", "'C:/x'", "['/etc/**']", "['../**']", "['{..,a}/**']", "true", "false"),
    *("0", "-1", "10000000000000000000", "1e309", "nan", "[]", "{}", "[['x']]", "''", "'\\u0000'"),
    *("'" + "x" * 100_000 + "'", "1979-05-27", "{ command = 'touch pwned' }"),
]
ONE_IN = amount(6, 1)
"""Each setting gets one in this many values; the next setting gets others."""


@pytest.mark.usefixtures("own_home")
def test_no_project_file_sets_a_path_a_command_or_a_service(tmp_path: Path) -> None:
    """Trusted settings are rejected with any value; the rest is checked and stays inside."""
    root = tmp_path / "project"
    root.mkdir()
    settings = describe()
    trusted_keys = {setting.key for setting in settings if not setting.project_file}
    assert {"index.dir", "embed.provider"} <= trusted_keys
    trusted = config.load(root)
    tried, bad = 0, []
    for place, setting in enumerate(settings):
        section, _, name = setting.key.rpartition(".")
        for turn, value in enumerate(VALUES):
            if (turn + place) % ONE_IN:
                continue
            tried += 1
            head = f"[{section}]\n" if section else ""
            (root / "lookfar.toml").write_text(f"{head}{name} = {value}\n", encoding="utf-8")
            try:
                loaded = config.load(root)
            except InvalidConfig:
                continue
            except Exception as error:
                bad.append((setting.key, value[:40], repr(error)))
                continue
            if setting.key in trusted_keys:
                bad.append((setting.key, value[:40], "was read"))
            # Trusted settings are unchanged, whatever the file contains.
            for key in trusted_keys:
                part, _, field = key.rpartition(".")
                now, then = (getattr(s, part) if part else s for s in (loaded, trusted))
                if getattr(now, field) != getattr(then, field):
                    bad.append((setting.key, value[:40], f"changed {key}"))
    report("hostile configuration", trials=tried, faults=len(VALUES), failures=len(bad))
    assert bad == []
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize(
    "text",
    [
        "a." * 20_000 + "b = 1\n",
        "a = " + "[" * 20_000 + "\n",
        "a = " + "{b=" * 20_000 + "\n",
        '[a]\nb = "' + "\\u0041" * 50_000 + '"\n',
        "[embed]\nprovider = 'static'\nprovider = 'none'\n",
        "\0" * 1_000,
        "\ufeff[index]\n",
    ],
)
def test_a_hostile_file_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "lookfar.toml").write_text(text, encoding="utf-8")
    with processor_time_below(2):
        try:
            loaded = config.load(tmp_path)
        except InvalidConfig:
            loaded = config.load(None)
        assert loaded.embed == config.load(None).embed
