"""The documentation is complete and up to date, and its examples run."""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lookfar import config, errors, model
from lookfar.config.foreign.systems import SYSTEMS
from lookfar.serve.cli.main import cli
from lookfar.serve.show import json_shapes
from lookfar.serve.toolsets import ALL, NAMES
from script_modules import load_script
from waiting import DEADLINE

ROOT = Path(__file__).parent.parent.parent
SHOWN = [name for name, command in cli.commands.items() if not command.hidden]
DOCS = ROOT / "docs"
COMMANDS = DOCS / "commands"


generator = load_script("scripts/docs.py")
PAGES: list[Path] = list(generator.PAGES)
REGIONS = [
    (page.relative_to(ROOT).as_posix(), name, content)
    for page in PAGES
    for name, content in generator.regions(page.read_text(encoding="utf-8"))
]
TABLES = [region for region in REGIONS if not region[1].startswith("run ")]
RUNS = sorted({name for _, name, _ in REGIONS if name.startswith("run ")})


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_generated_tables_are_up_to_date(subtests: pytest.Subtests) -> None:
    for page, name, content in TABLES:
        with subtests.test(page=str(page)):
            assert content == generator.table(name), f"{page}: run python scripts/docs.py"


def test_every_kind_of_table_exists() -> None:
    wanted = {"commands", "settings", "errors", "formats", "languages", "extractors"}
    wanted |= {"install-links"}
    wanted |= {f"options {name}" for name in SHOWN}
    wanted |= {f"tools {name}" for name in NAMES if name != ALL}
    wanted |= {f"migration {name}" for name in SYSTEMS}
    assert {name for _, name, _ in TABLES} == wanted


def test_every_command_and_option_is_documented(subtests: pytest.Subtests) -> None:
    for name in SHOWN:
        with subtests.test(name=str(name)):
            page = (COMMANDS / f"{name}.md").read_text(encoding="utf-8")
            assert page.startswith(f"# lookfar {name}\n")
            ways = generator.leaves(cli.commands[name])
            for parameter in [
                parameter for way in ways for command in way for parameter in command.params
            ]:
                for spelling in parameter.opts if parameter.param_type_name == "option" else ():
                    assert re.search(rf"`[^`]*{re.escape(spelling)}\b[^`]*` \|", page), spelling
                assert parameter.param_type_name == "argument" or getattr(parameter, "help", "")


def test_no_page_describes_a_removed_command() -> None:
    assert {page.stem for page in COMMANDS.glob("*.md")} == set(SHOWN)


def test_every_setting_is_documented() -> None:
    page = text_of("settings.md")
    assert not [doc.key for doc in config.describe() if f"| `{doc.key}` |" not in page]


def test_every_error_is_documented() -> None:
    page = text_of("errors.md")
    explained = dict(re.findall(r"^### ([A-Z_]+)\n\n(.+?)(?=\n###|\Z)", page, re.DOTALL | re.M))
    codes = {cls.code: cls.exit_code for cls in generator.error_classes()}
    assert set(explained) == set(codes)
    for code, exit_code in codes.items():
        assert f"| [`{code}`](#{code.lower()}) | {exit_code} |" in page
        assert len(explained[code]) > 40


def test_the_error_tree_is_drawn_in_full() -> None:
    assert errors.__doc__ is not None
    for cls in generator.error_classes():
        assert re.search(rf"\b{cls.__name__}\b", errors.__doc__), cls.__name__
        assert cls is errors.LookfarError or cls.code in errors.__doc__


RESULTS = (
    *(model.Alike, model.Contribution, model.Hit, model.Incomplete, model.Listed, model.Listing),
    *(model.MatchedLine, model.FileMatches, model.Matches, model.Reading, model.Span),
    *(model.RelatedEntry, model.Related, model.Ruling, model.WhyNot),
    *(model.Counts, model.Failure, model.IndexReport, model.Receipts, model.Status),
    *(model.VectorPass, model.Watching, model.Damage, model.Salvaged, model.Verified),
    *(model.GenerationDiff, model.GenerationInfo, model.UndoStep),
    *(model.EditedDocument, model.LinkChange, model.Violation),
)
"""The dataclasses whose fields become keys of the JSON."""


def test_every_key_of_the_json_is_documented() -> None:
    page = text_of("json.md")
    source = (ROOT / "src" / "lookfar" / "serve" / "show" / "json_shapes.py").read_text(
        encoding="utf-8"
    )
    keys = set(re.findall(r'"(\w+)": ', source))
    for result in RESULTS:
        keys |= {field.name for field in dataclasses.fields(result)}
    keys -= {"error", "number", *json_shapes.INLINED, *json_shapes.NOT_IN_HITS}
    assert not [key for key in sorted(keys) if f"`{key}`" not in page]


@pytest.mark.parametrize("name", RUNS)
def test_every_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples" / "handbook", tmp_path / "handbook")
    monkeypatch.chdir(tmp_path)
    quick = ["--set", "embed.provider=hash"]
    CliRunner().invoke(cli, ["index", "handbook", *quick])
    result = CliRunner().invoke(cli, [*shlex.split(name)[2:], *quick])
    output = "".join(content for _, region, content in REGIONS if region == name)
    assert output.startswith("```"), "run python scripts/docs.py"
    assert f"$ {name.removeprefix('run ')}\n" in output
    assert result.exit_code in (0, 3)
    assert ("error" in output) == (result.exit_code != 0)


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)  # Code contains examples, not links.
    found = re.findall(r"\]\(([^)\s]+)\)", text)
    return [link for link in found if not link.startswith(("http", "mailto"))]


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", head.lower())) for head in heads}


def test_links_resolve(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(page=str(page)):
            for link in links(page):
                name, _, anchor = link.partition("#")
                target = (page.parent / name).resolve() if name else page
                assert target.exists(), link
                assert not anchor or anchor in anchors(target), link


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


EXAMPLES = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in (DOCS / "python.md", DOCS / "json.md", ROOT / "README.md")
    for number, block in enumerate(python_blocks(page))
]


@pytest.mark.parametrize("block", EXAMPLES)
def test_python_examples_run(block: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "handbook", tmp_path / "handbook")
    result = subprocess.run(
        [sys.executable, "-c", block],
        cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_the_first_command_of_the_readme_finds_its_answer(tmp_path: Path) -> None:
    """Ask the README's question about the documentation with the real model."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = readme.split("<!-- first-command -->", 1)[1].split("```")[1].strip()
    asked = shlex.split(command.rpartition("&&")[2])
    assert asked[:2] == [".venv/bin/lookfar", "search"]
    arguments = [*asked[1:-1], str(ROOT / asked[-1]), "--index-dir", str(tmp_path)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0
    assert "1. settings.md:" in result.stdout
