"""Boosts by links, on real files and links with scores set by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from lookfar import Library, config
from lookfar.config import SearchSettings
from lookfar.embed.hashed import HashedEmbedder
from lookfar.index.build import Build
from lookfar.library.compat import add_linked, boost_community
from lookfar.model import Filters
from lookfar.ports import CollectionSnapshot
from lookfar.retrieve.ranking import Candidate, Candidates, Plan, Ranking, Source
from lookfar.retrieve.stages import links
from lookfar.retrieve.stages.boost import boost_recent
from lookfar.retrieve.stages.links import RECENT_ENTRIES, Entry, split_entries
from lookfar.sources.confine import Root
from lookfar.store.sqlite.store import CollectionStore

DAY = 86_400.0
FILES = {
    "guide.md": "# Guide\n\nSee [setup](setup.md).\n\n## See also\n\n[colours](colours.md)\n",
    "guide/install.md": "# Install\n\nHow it is installed.\n",
    "guide/deep/more.md": "# More\n\nFurther down.\n",
    "setup.md": "# Setup\n\nBack to the [guide](guide.md).\n",
    "colours.md": "# Colours\n\nRed and green.\n",
    "notes/_index.md": "# Notes\n\nAn index.\n",
    "notes/one.md": "# One\n\n![[guide/install]]\n\n## Implementation\n\n[code](../tool.py)\n",
    "tests/test_plan.md": "# Plan\n\nIt checks [one](../notes/one.md).\n",
    "tool.py": "def tool():\n    return 1\n",
    "alone.md": "# Alone\n\nNobody links here.\n",
}

Ask = Callable[..., tuple[Ranking, list[Source]]]


def write_files(folder: Path, files: dict[str, str]) -> Path:
    root = folder / "files"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def index(folder: Path, files: dict[str, str]) -> CollectionStore:
    root = write_files(folder, files)
    settings = config.load(None, {"embed.provider": "hash"}, environ={"HOME": str(folder)})
    store = CollectionStore(folder / "index")
    Build(Root.open(root), "files", store, settings, HashedEmbedder()).run()
    return store


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectionSnapshot]:
    store = index(tmp_path_factory.mktemp("company"), FILES)
    with store.snapshot() as snapshot:
        yield snapshot
    store.close()


@pytest.fixture
def ask(snapshot: CollectionSnapshot) -> Ask:
    """Return a ranking in which the first chunk of each document has the given score."""

    def ask(
        scores: dict[str, float], filters: Filters | None = None
    ) -> tuple[Ranking, list[Source]]:
        plan = Plan("installed", "keyword", 10, filters or Filters(), ("installed",), {}, None, 1.0)
        places = [snapshot.chunks(uri)[0] for uri in scores]
        candidates = Candidates(Candidate(place, 0.0, 0.0, 0.0) for place in places)
        empty = Ranking(plan, candidates, (0.0,) * len(candidates))
        made = empty.add_step("made", list(scores.values()), lambda _: "by hand")
        return made, [Source("files", plan, snapshot, snapshot.text)]

    return ask


def scores(ranking: Ranking) -> dict[str, float]:
    return {
        candidate.place.uri: round(score, 6)
        for candidate, score in zip(ranking.candidates, ranking.scores, strict=True)
    }


def describe_links(ranking: Ranking, uri: str) -> list[str]:
    at = [candidate.place.uri for candidate in ranking.candidates].index(uri)
    return [f"{step.stage}: {step.note}" for step in ranking.explain(at)[1:]]


# --- joining --------------------------------------------------------------------------------------


def test_linked_documents_are_added_with_half_the_score(ask: Ask) -> None:
    """Documents already found have at least half, and no second link is followed."""
    ranking, sources = ask({"notes/one.md": 0.8, "tool.py": 0.1})
    joined = add_linked(replace(ranking, sources=sources), 1)
    assert scores(joined) == {"notes/one.md": 0.8, "tool.py": 0.4, "guide/install.md": 0.4}
    at = len(joined.candidates) - 1
    assert [step.stage for step in joined.explain(at)] == ["neighbour"]
    assert joined.explain(at)[0].note == "linked from notes/one.md"
    assert joined.order()[1] == at


def test_code_is_never_a_seed(ask: Ask) -> None:
    ranking, sources = ask({"tool.py": 0.9, "setup.md": 0.5})
    assert scores(add_linked(replace(ranking, sources=sources), 1))["guide.md"] == 0.25


def test_filtered_documents_are_not_added(ask: Ask) -> None:
    for filters in (Filters(prefix="notes/"), Filters(glob="notes/*.md")):
        ranking, sources = ask({"notes/one.md": 0.8}, filters)
        assert scores(add_linked(replace(ranking, sources=sources), 1)) == {"notes/one.md": 0.8}


# --- communities ----------------------------------------------------------------------------------


def test_community_of_the_best_counts_more(ask: Ask) -> None:
    """Guide, setup and colours link to each other; a document without links is alone."""
    ranking, sources = ask(
        {"guide.md": 0.8, "colours.md": 0.5, "tests/test_plan.md": 0.5, "alone.md": 0.5}
    )
    lifted = boost_community(replace(ranking, sources=sources), 1)
    assert scores(lifted) == {
        "guide.md": 0.88, "colours.md": 0.55, "tests/test_plan.md": 0.5, "alone.md": 0.5,
    }  # fmt: skip
    assert describe_links(lifted, "colours.md") == ["community: in a community of the best hits"]
    both = replace(ask({"guide.md": 0.8, "tests/test_plan.md": 0.5})[0], sources=sources)
    assert scores(boost_community(both, 2)) == {"guide.md": 0.88, "tests/test_plan.md": 0.55}


def test_document_without_links_has_no_community(ask: Ask) -> None:
    ranking, sources = ask({"alone.md": 0.8, "guide.md": 0.5})
    assert scores(boost_community(replace(ranking, sources=sources), 1)) == scores(ranking)


# --- age ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "factor", "note"),
    [
        (0.5, 1.2, ["recent: changed today"]),
        (6.9, 1.2, ["recent: changed 6 days ago"]),
        (7.1, 1.1, ["recent: changed 7 days ago"]),
        (29.9, 1.1, ["recent: changed 29 days ago"]),
        (30.1, 1.0, []),
        (-3.0, 1.2, ["recent: changed today"]),
    ],
)
def test_recently_changed_documents_count_more(
    ask: Ask, snapshot: CollectionSnapshot, days: float, factor: float, note: list[str]
) -> None:
    """Factor 1.2 within 7 days, 1.1 within 30, else 1."""
    ranking, sources = ask({"guide.md": 0.5})
    document = snapshot.document("guide.md")
    assert document is not None
    now = document["mtime_ns"] / 1e9 + days * DAY
    enabled = replace(ranking, sources=sources, settings=SearchSettings(recency=True))
    lifted = boost_recent(enabled, clock=lambda: now)
    assert scores(lifted) == {"guide.md": pytest.approx(0.5 * factor)}
    assert describe_links(lifted, "guide.md") == note


def test_age_counts_only_if_enabled(ask: Ask) -> None:
    ranking, sources = ask({"guide.md": 0.5})
    ranking = replace(ranking, sources=sources)
    assert boost_recent(ranking) is ranking


# --- by description -------------------------------------------------------------------------------

OVERVIEW = {
    "guide.md": """\
# Guide

- [Colours](colours.md): which paint dries overnight
- [Setup](setup.md): choose a folder
- tools.hammer()
  - : drives nails into oak
- tools.saw-blade
  - : cuts oak
""",
    "guide/hammer.md": "# Hammer\n\nHold it at the end.\n",
    "guide/saw-blade.md": "# Blade\n\nKeep it sharp, as every tool.\n",
    "colours.md": "# Colours\n\nWait for a day.\n",
    "setup.md": "# Setup\n\nBegin here.\n",
}
QUESTIONS = {
    "which paint dries overnight": "colours.md",
    "how to choose the folder": "setup.md",
    "what drives nails into wood": "guide/hammer.md",
    "what cuts oak": "guide/saw-blade.md",
}


@pytest.fixture(scope="module")
def overview(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("overview")
    root = write_files(folder, OVERVIEW)
    with Library.open(root, index_dir=folder / "indexes") as library:
        yield library


@pytest.mark.parametrize(("question", "answer"), QUESTIONS.items())
def test_the_page_that_an_entry_describes_is_lifted(
    overview: Library, question: str, answer: str
) -> None:
    """Fails if all pages that an overview names are lifted alike."""
    hits = overview.search(question, explain=True).hits
    described = [
        (hit.uri, step.value)
        for hit in hits
        for step in hit.explanation
        if step.stage == "links" and "described in guide.md" in step.note
    ]
    assert described[0][0] == answer
    assert all(described[0][1] > value for _, value in described[1:])
    others = [hit.uri for hit in hits if hit.uri != "guide.md"]
    assert others[0] == answer


def test_entries_that_share_no_word_with_the_question_describe_nothing(overview: Library) -> None:
    hits = overview.search("sharp guide", explain=True).hits
    notes = [step.note for hit in hits for step in hit.explanation if step.stage == "links"]
    assert not any("described" in note for note in notes)


def test_entries_are_read_once_and_again_after_an_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail with entries that are kept by their document instead of their text."""

    def list_described(library: Library) -> list[str]:
        hits = library.search("which paint dries overnight", explain=True).hits
        return [
            hit.uri
            for hit in hits
            for step in hit.explanation
            if step.stage == "links" and step.note == "100% described in guide.md"
        ]

    RECENT_ENTRIES.clear()
    root = write_files(tmp_path, OVERVIEW)
    split: list[str] = []

    def note(text: str) -> list[Entry]:
        split.append(text)
        return split_entries(text)

    monkeypatch.setattr(links, "split_entries", note)
    with Library.open(root, index_dir=tmp_path / "indexes") as library:
        assert list_described(library) == ["colours.md"]
        first = list(split)
        assert list_described(library) == ["colours.md"]
        assert split == first
        text = OVERVIEW["guide.md"].replace("which paint dries overnight", "green and blue")
        text = text.replace("choose a folder", "which paint dries overnight")
        (root / "guide.md").write_text(text)
        library.index()
        assert list_described(library) == ["setup.md"]
        assert text.strip() in [part.strip() for part in split]


# --- by settings ----------------------------------------------------------------------------------


def stages_of(library: Library, query: str, uri: str) -> list[str]:
    result = library.search(query, explain=True)
    hit = next(step for step in result.hits if step.uri == uri)
    return [step.stage for step in hit.explanation]


@pytest.mark.parametrize(
    ("settings", "given", "absent"),
    [
        ({}, "links", ("community", "recent", "neighbour")),
        ({"search.boosts": False}, "", ("links", "phrase", "word for word", "title", "heading")),
        ({"search.communities": True}, "community", ()),
        ({"search.communities": True, "search.community_factor": 1}, "", ("community",)),
        ({"search.recency": True}, "recent", ()),
    ],
)  # fmt: skip
def test_settings_switch_each_stage(
    tmp_path: Path, settings: dict[str, object], given: str, absent: Sequence[str]
) -> None:
    root = write_files(
        tmp_path,
        {
            "guide.md": "# Zebra\n\nzebra zebra [rules](rules.md)\n",
            "rules.md": "# Rules\n\nof a zebra crossing\n",
        },
    )
    explicit = {"embed.provider": "none", **settings}
    with Library.open(root, index_dir=tmp_path / "indexes", settings=explicit) as library:
        stages = stages_of(library, "zebra", "rules.md")
    assert not given or given in stages
    assert not set(absent).intersection(stages)


def test_ragdocs_preset_enables_all_of_them() -> None:
    chosen = config.load(None, {"preset": "ragdocs"}, {}).search
    assert chosen.join_neighbours
    assert (chosen.communities, chosen.community_factor) == (True, 1.1)
    assert chosen.recency


def test_links_of_a_document_report_their_relation(tmp_path: Path) -> None:
    """All five relations, by the position of links in real files, in both directions."""
    root = write_files(tmp_path, FILES)
    with Library.open(
        root, index_dir=tmp_path / "indexes", settings={"embed.provider": "none"}
    ) as library:
        library.index()

        def describe_links(uri: str, kind: Literal["links", "backlinks"]) -> dict[str, object]:
            return {
                entry.uri: entry.relation for entry in library.related(uri, kinds=(kind,)).entries
            }

        assert describe_links("guide.md", "links") == {
            "setup.md": "links_to",
            "colours.md": "related",
        }
        assert describe_links("notes/one.md", "links") == {
            "guide/install.md": "transclusion", "tool.py": "implements",
        }  # fmt: skip
        assert describe_links("notes/one.md", "backlinks") == {"tests/test_plan.md": "tests"}


def test_neighbour_is_added_if_enabled(tmp_path: Path) -> None:
    root = write_files(
        tmp_path,
        {
            "guide.md": "# Animals\n\nzebra [rules](rules.md)\n",
            "rules.md": "# Rules\n\nof crossings\n",
        },
    )
    result = {}
    for joining in (False, True):
        explicit = {"embed.provider": "none", "search.join_neighbours": joining}
        with Library.open(root, index_dir=tmp_path / "indexes", settings=explicit) as library:
            result[joining] = {hit.uri: hit.score for hit in library.search("zebra").hits}
    assert result[False].keys() == {"guide.md"}
    assert result[True] == {
        "guide.md": result[False]["guide.md"],
        "rules.md": pytest.approx(result[False]["guide.md"] / 2, abs=1e-5),
    }
