"""Secrets in a folder, through a library: masked in every answer, kept by every edit.

Seen to fail with texts that were not masked when they were indexed, with reads of the disk that
were not masked (the hashes of all citations differ then), with edits made on the masked bytes (the
file lost its token), with an edit that wrote the mask back, with diffs and undo that showed the
token, with a setting that a project's own file could set, and with an epoch that outlived its
rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import planted
from lookfar.errors import InvalidArgument, InvalidConfig, LookfarError, NotFound
from lookfar.index import recipe
from lookfar.library import Library
from lookfar.model import Edit, Filters
from lookfar.sources.secrets import screen
from lookfar.sources.secrets.token_shapes import Finding
from lookfar.sources.secrets.values import MASK

pytestmark = pytest.mark.usefixtures("own_home")

PASSAGES = planted.in_passages()
TOKEN = next(each for each in PASSAGES if each.uri == "docs/token06.md")
KEY = next(each for each in PASSAGES if each.uri == "docs/key0.md")
DECIDED = planted.by_content()
PAGE = f"""# Harbour

How boats are moored.

## Access

{TOKEN.text.split("`")[1]} opens the gate of the harbour.

## Mooring

Ropes are kept on the quay.
"""


def opened(base: Path, **settings: object) -> Library:
    chosen = {"embed.provider": "hash", "index.workers": 1, **settings}
    return Library.open(base / "docs", index_dir=base / "indexes", settings=chosen)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    for each in (*PASSAGES, *DECIDED):
        place = root / each.uri
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(each.text, encoding="utf-8")
    (root / "harbour.md").write_text(PAGE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def library(base: Path) -> Iterator[Library]:
    with opened(base) as library:
        yield library


def test_what_is_read_and_found_is_masked_and_cited_exactly(library: Library) -> None:
    report = library.index()
    assert report.skipped["secret"] == len(DECIDED)
    assert report.masked == len(PASSAGES) + 1
    for each in PASSAGES:
        read = library.read(each.uri)
        assert len(read.text) == len(each.text)
        assert each.value not in read.text
        assert MASK in read.text
    answer = library.search("harbour gate", top_k=50, mode="keyword")
    assert answer.hits
    assert not answer.incomplete
    for hit in answer.hits:
        assert hit.state == "same"
        assert not any(each.value in hit.text for each in PASSAGES)
        cited = library.read(f"{hit.uri}:{hit.span.start_line}-{hit.span.end_line}")
        assert hit.text in cited.text
    assert library.verify() == []
    for each in DECIDED:
        with pytest.raises(LookfarError) as raised:
            library.read(each.uri)
        assert isinstance(raised.value, NotFound)
        assert each.value not in str(raised.value)


def test_a_citation_searches_only_other_texts_than_the_indexed_one_for_secrets(
    base: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if the hash is that of the stored text, which is masked, instead of the disk's."""
    (base / "docs" / "plain.md").write_text("# Pier\n\nThe pier is long.\n", encoding="utf-8")
    library.index()
    searched: list[str] = []
    find = screen.secret_by_content

    def note(text: str, uri: str = "") -> list[Finding]:
        searched.append(uri)
        return find(text, uri)

    monkeypatch.setattr(screen, "secret_by_content", note)
    assert library.search("the pier is long", top_k=1, mode="keyword").hits[0].uri == "plain.md"
    assert searched == []
    hits = library.search("opens the gate of the harbour", top_k=50, mode="keyword").hits
    assert "harbour.md" in searched
    assert not any(TOKEN.value in hit.text for hit in hits)


def test_why_names_the_rule_and_the_lines(library: Library) -> None:
    library.index()
    masked = library.why("harbour.md")
    assert masked.admitted
    assert (masked.reason, masked.rule) == ("masked", "github-token on line 7")
    kept_out = library.why("k8s/secret.yaml")
    assert not kept_out.admitted
    assert (kept_out.reason, kept_out.rule) == ("secret", "secret*.yaml")
    denied = library.why(".env.bak")
    assert (denied.reason, denied.rule) == ("denied", ".env.*")


def test_a_path_is_allowed_by_the_user_and_not_by_the_project(base: Path) -> None:
    with opened(base, **{"sources.allow_secrets": ["k8s/*", "harbour.md"]}) as library:
        library.index()
        assert "kind: Secret" in library.read("k8s/secret.yaml").text
        assert library.read("harbour.md").text == PAGE
        assert TOKEN.value not in library.read(TOKEN.uri).text
    # Without the exception nothing of it is left, in no generation.
    with opened(base) as library:
        library.index()
        with pytest.raises(NotFound):
            library.read("k8s/secret.yaml")
        assert TOKEN.value not in library.read("harbour.md").text
    own = base / "docs" / "lookfar.toml"
    own.write_text('[sources]\nallow_secrets = ["**"]\n', encoding="utf-8")
    with pytest.raises(InvalidConfig, match="allow_secrets"), opened(base):
        pass


def test_an_index_made_under_other_rules_is_built_again(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lookfar.sources.secrets.screen.secret_by_content", lambda *_: [])
    with opened(base) as library, monkeypatch.context() as before:
        before.setattr(recipe, "SECRETS", 0)
        library.index()
        assert TOKEN.value in library.read("harbour.md").text
    monkeypatch.undo()
    with opened(base) as library:
        hits = library.search("gate of the harbour", top_k=50).hits
        assert hits
        assert not any(TOKEN.value in hit.text for hit in hits)
        library.index()
        shown = {each.number for each in library.snapshots()}
        for generation in shown:
            found = library.search("gate harbour", as_of=generation, top_k=50).hits
            assert not any(TOKEN.value in hit.text for hit in found)
    stored = [path for path in (base / "indexes").rglob("epoch-*") if path.is_dir()]
    assert len(stored) == 1, "the epoch with the secrets is gone"


@pytest.mark.parametrize(
    "edit",
    [
        Edit("append", "harbour.md#Access", text="More about the gate."),
        Edit("replace", "harbour.md#Mooring", text="Chains, too."),
        Edit("rename", "harbour.md#Access", heading="Entry"),
        Edit("move", "harbour.md#Access", to="Harbour", position="last"),
        Edit("insert", "harbour.md#Access", heading="Before", text="x", position="before"),
        Edit("fix", "harbour.md"),
    ],
    ids=lambda edit: edit.op,
)
def test_an_edit_keeps_the_secret_and_does_not_show_it(
    base: Path, library: Library, edit: Edit
) -> None:
    library.index()
    read = library.read("harbour.md")
    for dry_run in (True, False):
        result = library.edit(edit, dry_run=dry_run)
        assert TOKEN.value not in str(result)
    kept = (base / "docs" / "harbour.md").read_text(encoding="utf-8")
    assert TOKEN.value in kept
    assert MASK not in kept
    assert TOKEN.value not in library.read("harbour.md").text
    if kept != PAGE:
        undone = library.undo("harbour.md")
        assert TOKEN.value not in str(undone)
    assert (base / "docs" / "harbour.md").read_text(encoding="utf-8") == PAGE
    assert library.read("harbour.md").sha256 == read.sha256


def test_the_mask_is_never_written_over_the_secret(base: Path, library: Library) -> None:
    library.index()
    read = library.read("harbour.md#Access")
    copied = read.text.partition("\n\n")[2]
    assert MASK in copied
    for edit in (
        Edit("replace", "harbour.md#Access", text=copied, expected=read.sha256),
        Edit("create", "harbour.md", heading="Harbour", text=copied, overwrite=True),
    ):
        with pytest.raises(InvalidArgument, match="masked"):
            library.edit(edit)
    assert (base / "docs" / "harbour.md").read_text(encoding="utf-8") == PAGE
    # Elsewhere it is only a row of blocks, and the section may go as a whole.
    library.edit(Edit("replace", "harbour.md#Access", text="Ask the warden.", expected=read.sha256))
    assert TOKEN.value not in (base / "docs" / "harbour.md").read_text(encoding="utf-8")


def test_a_memory_keeps_its_token_and_gives_it_to_nobody(base: Path, library: Library) -> None:
    library.index()
    token = TOKEN.text.split("`")[1]
    notebook = library.notebook()
    made = notebook.create(f"{token} is the token of the harbour.")
    assert TOKEN.value not in str(made)
    assert TOKEN.value.lower()[:16] not in made.name
    assert any("github-token" in each for each in made.warnings)
    [path] = notebook.folder.glob("*.md")
    assert token in path.read_text(encoding="utf-8")
    for shown in (notebook.read(made.name), *notebook.memories(), notebook.append(made.name, "x")):
        assert TOKEN.value not in str(shown)
    with pytest.raises(InvalidArgument, match="masked"):
        notebook.update(made.name, notebook.read(made.name).text)
    with pytest.raises(InvalidArgument, match="masked"):
        notebook.merge([made.name], "merged", notebook.read(made.name).text)
    assert token in path.read_text(encoding="utf-8")
    hits = library.search("token of the harbour", filters=Filters(lanes=("memory",))).hits
    assert hits
    assert not any(TOKEN.value in hit.text for hit in hits)


def test_an_inserted_document_comes_back_as_it_was_given(library: Library) -> None:
    """Whoever inserts a text has no other copy of it, and asked for it to be kept."""
    database = library.database("kept")
    database.create()
    database.insert(TOKEN.text)
    assert [each.text for each in database.entries()] == [TOKEN.text]
    assert any(TOKEN.value in line for line in database.export_lines())


def test_history_shows_neither_diffs_nor_messages_with_secrets(
    repository: Any, tmp_path: Path
) -> None:
    repo = repository("docs")
    long_line = f"{'x ' * 190}{TOKEN.text.split('`')[1]}"
    repo.commit(
        f"Open the gate\n\nWith {TOKEN.text.split('`')[1]} of the harbour",
        {"page.md": PAGE, "key.md": KEY.text, "long.md": long_line, "k8s/secret.yaml": "a: b\n"},
    )
    repo.commit("Move a line", {"key.md": KEY.text.replace("Keep it.", "Keep it safe.")})
    changed = KEY.text.split("\n")
    changed[9] = changed[9][::-1]
    repo.commit("Turn the key", {"key.md": "\n".join(changed)})
    with closing(opened(tmp_path)) as library:
        library.index()
        hits = library.search("gate harbour key line", filters=Filters(lanes=("commits",)), top_k=9)
        texts = [library.read(hit.uri, collection=hit.collection).text for hit in hits.hits]
        assert len(texts) == 3
        for text in texts:
            for secret in (TOKEN.value, TOKEN.value[:16], *KEY.text.split("\n")[6:12]):
                assert secret not in text
        assert any("k8s/secret.yaml" in text and "+a: b" not in text for text in texts)
        assert any("Ropes are kept" in text for text in texts)
