"""What the best documents lead to: real files and links, scores made by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from lookfar import Library, config
from lookfar.embed.hashed import HashedEmbedder
from lookfar.index.build import Build
from lookfar.model import Filters, Relation
from lookfar.retrieve.ranking import Candidate, Plan, Ranking, Source
from lookfar.retrieve.stages.links import add_linked, boost_community, boost_linked
from lookfar.retrieve.stages.recency import boost_recent
from lookfar.sources.confine import Root
from lookfar.store.shared.snapshot import StoredSnapshot
from lookfar.store.sqlite.store import CollectionStore

DAY = 86_400.0
EQUAL: dict[Relation, float] = {
    "links_to": 1.0, "implements": 1.0, "tests": 1.0, "related": 1.0, "transclusion": 1.0,
}  # fmt: skip
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


def written(folder: Path, files: dict[str, str]) -> Path:
    root = folder / "files"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def index(folder: Path, files: dict[str, str]) -> CollectionStore:
    root = written(folder, files)
    settings = config.load(None, {"embed.provider": "hash"}, environ={"HOME": str(folder)})
    store = CollectionStore(folder / "index")
    Build(Root.open(root), "files", store, settings, HashedEmbedder()).run()
    return store


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredSnapshot]:
    store = index(tmp_path_factory.mktemp("company"), FILES)
    with store.snapshot() as snapshot:
        yield snapshot
    store.close()


@pytest.fixture
def ask(snapshot: StoredSnapshot) -> Ask:
    """A ranking in which the first chunk of each document has the score it is given."""

    def ask(
        scores: dict[str, float], filters: Filters | None = None
    ) -> tuple[Ranking, list[Source]]:
        plan = Plan("installed", "keyword", 10, filters or Filters(), ("installed",), {}, None, 1.0)
        places = [snapshot.chunks(uri)[0] for uri in scores]
        candidates = tuple(Candidate(place, 0.0, 0.0, 0.0) for place in places)
        empty = Ranking(plan, candidates, (0.0,) * len(candidates))
        made = empty.add_step("made", list(scores.values()), lambda _: "by hand")
        return made, [Source("files", plan, snapshot, snapshot.text)]

    return ask


def scores(ranking: Ranking) -> dict[str, float]:
    return {
        each.place.uri: round(score, 6)
        for each, score in zip(ranking.candidates, ranking.scores, strict=True)
    }


def told(ranking: Ranking, uri: str) -> list[str]:
    at = [each.place.uri for each in ranking.candidates].index(uri)
    return [f"{each.stage}: {each.note}" for each in ranking.explain(at)[1:]]


# --- one link away --------------------------------------------------------------------------------


def test_what_the_best_links_to_is_lifted_by_a_share_of_its_score(ask: Ask) -> None:
    """Caught: following links backwards, or lifting by the target's own score."""
    ranking, sources = ask({"guide.md": 0.8, "setup.md": 0.5, "alone.md": 0.5})
    lifted = boost_linked(1, 0.1, 0.0, EQUAL, sources)(ranking)
    assert scores(lifted) == {"guide.md": 0.8, "setup.md": 0.58, "alone.md": 0.5}
    assert told(lifted, "setup.md") == ["links: linked from guide.md"]
    assert told(lifted, "alone.md") == []
    assert lifted.steps[-1].whole_document


def test_only_the_best_few_lead(ask: Ask) -> None:
    ranking, sources = ask({"alone.md": 0.9, "guide.md": 0.8, "setup.md": 0.5})
    assert scores(boost_linked(1, 0.1, 0.2, EQUAL, sources)(ranking)) == scores(ranking)
    assert scores(boost_linked(2, 0.1, 0.2, EQUAL, sources)(ranking))["setup.md"] == 0.58


def test_the_strongest_lead_counts_and_they_do_not_add_up(ask: Ask) -> None:
    """It stands below the guide, and in one of the notes; two that link to each other lift both."""
    ranking, sources = ask({"guide.md": 0.8, "notes/one.md": 0.6, "guide/install.md": 0.1})
    lifted = boost_linked(2, 0.1, 0.25, EQUAL, sources)(ranking)
    assert scores(lifted)["guide/install.md"] == 0.3
    stronger = boost_linked(2, 0.5, 0.25, EQUAL, sources)(ranking)
    assert scores(stronger)["guide/install.md"] == 0.4
    assert told(stronger, "guide/install.md") == ["links: transclusion, linked from notes/one.md"]
    ranking, sources = ask({"guide.md": 0.8, "setup.md": 0.6})
    assert scores(boost_linked(3, 0.1, 0.5, EQUAL, sources)(ranking)) == {
        "guide.md": 0.86, "setup.md": 0.68,
    }  # fmt: skip


def test_of_equal_leads_the_first_by_uri_is_named_whichever_was_edited_last(tmp_path: Path) -> None:
    """Caught: going by the numbers of documents, which a rebuild gives otherwise."""
    pages = {name: f"# {name}\n\n[c](c.md)\n" for name in ("a.md", "b.md")}
    index(tmp_path, {**pages, "c.md": "# C\n\nhere\n"}).close()
    store = index(tmp_path, {"a.md": "# a.md\n\nAgain [c](c.md)\n"})
    with closing(store), store.snapshot() as snapshot:
        chunks = [snapshot.chunks(uri)[0] for uri in ("a.md", "b.md", "c.md")]
        assert chunks[0].document > chunks[1].document
        plan = Plan("c", "keyword", 10, Filters(), ("c",), {}, None, 1.0)
        candidates = tuple(Candidate(place, 0.0, 0.0, 0.0) for place in chunks)
        ranking = Ranking(plan, candidates, (0.5, 0.5, 0.1))
        sources = [Source("files", plan, snapshot, snapshot.text)]
        lifted = boost_linked(2, 0.1, 0.0, EQUAL, sources)(ranking)
        assert lifted.explain(2)[0].note == "linked from a.md"


def test_links_weigh_by_what_they_express(ask: Ask) -> None:
    weights: dict[Relation, float] = {
        "links_to": 1.0, "implements": 4.0, "tests": 3.0, "related": 0.5, "transclusion": 2.0,
    }  # fmt: skip
    ranking, sources = ask({"guide.md": 0.8, "setup.md": 0.1, "colours.md": 0.1})
    lifted = boost_linked(1, 0.1, 0.0, weights, sources)(ranking)
    assert scores(lifted) == {"guide.md": 0.8, "setup.md": 0.18, "colours.md": 0.14}
    assert told(lifted, "colours.md") == ["links: related, linked from guide.md"]
    ranking, sources = ask({"notes/one.md": 0.5, "guide/install.md": 0.1, "tool.py": 0.1})
    lifted = boost_linked(1, 0.1, 0.0, weights, sources)(ranking)
    assert scores(lifted) == {"notes/one.md": 0.5, "guide/install.md": 0.2, "tool.py": 0.3}
    ranking, sources = ask({"tests/test_plan.md": 0.5, "notes/one.md": 0.1})
    lifted = boost_linked(1, 0.1, 0.0, weights, sources)(ranking)
    assert scores(lifted)["notes/one.md"] == 0.25


def test_a_page_leads_to_those_in_its_folder(ask: Ask) -> None:
    """Not further down, not back, and not from one page in a folder to the next."""
    ranking, sources = ask(
        {"guide.md": 0.8, "guide/install.md": 0.5, "guide/deep/more.md": 0.5, "setup.md": 0.5}
    )
    lifted = boost_linked(4, 0.0, 0.25, EQUAL, sources)(ranking)
    assert scores(lifted) == {
        "guide.md": 0.8, "guide/install.md": 0.7, "guide/deep/more.md": 0.5, "setup.md": 0.5,
    }  # fmt: skip
    assert told(lifted, "guide/install.md") == ["links: below guide.md"]
    ranking, sources = ask({"notes/_index.md": 0.4, "notes/one.md": 0.3})
    assert scores(boost_linked(1, 0.0, 0.25, EQUAL, sources)(ranking))["notes/one.md"] == 0.4


def test_code_leads_nowhere_and_takes_no_ones_place(ask: Ask) -> None:
    ranking, sources = ask({"tool.py": 0.9, "guide.md": 0.8, "setup.md": 0.5})
    assert scores(boost_linked(1, 0.1, 0.0, EQUAL, sources)(ranking))["setup.md"] == 0.58


# --- joining --------------------------------------------------------------------------------------


def test_documents_one_link_away_join_with_half_the_score(ask: Ask) -> None:
    """As by the spec; what is there already keeps what it has, and no second link is followed."""
    ranking, sources = ask({"notes/one.md": 0.8, "tool.py": 0.1})
    joined = add_linked(1, 0.5, EQUAL, sources)(ranking)
    assert scores(joined) == {"notes/one.md": 0.8, "tool.py": 0.1, "guide/install.md": 0.4}
    at = len(joined.candidates) - 1
    assert [each.stage for each in joined.explain(at)] == ["neighbour"]
    assert joined.explain(at)[0].note == "linked from notes/one.md"
    assert joined.order()[1] == at


def test_what_a_filter_leaves_out_does_not_join(ask: Ask) -> None:
    for filters in (Filters(prefix="notes/"), Filters(glob="notes/*.md")):
        ranking, sources = ask({"notes/one.md": 0.8}, filters)
        assert scores(add_linked(1, 0.5, EQUAL, sources)(ranking)) == {"notes/one.md": 0.8}


# --- communities ----------------------------------------------------------------------------------


def test_the_community_of_the_best_counts_more(ask: Ask) -> None:
    """Guide, setup and colours are linked among each other; whoever has no links is alone."""
    ranking, sources = ask(
        {"guide.md": 0.8, "colours.md": 0.5, "tests/test_plan.md": 0.5, "alone.md": 0.5}
    )
    lifted = boost_community(1, 1.1, sources)(ranking)
    assert scores(lifted) == {
        "guide.md": 0.88, "colours.md": 0.55, "tests/test_plan.md": 0.5, "alone.md": 0.5,
    }  # fmt: skip
    assert told(lifted, "colours.md") == ["community: in a community of the best hits"]
    both = boost_community(2, 1.1, sources)(ask({"guide.md": 0.8, "tests/test_plan.md": 0.5})[0])
    assert scores(both) == {"guide.md": 0.88, "tests/test_plan.md": 0.55}


def test_the_best_without_links_has_no_community(ask: Ask) -> None:
    ranking, sources = ask({"alone.md": 0.8, "guide.md": 0.5})
    assert scores(boost_community(1, 1.1, sources)(ranking)) == scores(ranking)


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
def test_what_was_changed_lately_counts_more(
    ask: Ask, snapshot: StoredSnapshot, days: float, factor: float, note: list[str]
) -> None:
    """As by the spec: times 1.2 within 7 days, 1.1 within 30, else 1."""
    ranking, sources = ask({"guide.md": 0.5})
    document = snapshot.document("guide.md")
    assert document is not None
    now = document["mtime_ns"] / 1e9 + days * DAY
    # In whichever order the tiers are given.
    lifted = boost_recent([(30, 1.1), (7, 1.2)], sources, clock=lambda: now)(ranking)
    assert scores(lifted) == {"guide.md": pytest.approx(0.5 * factor)}
    assert told(lifted, "guide.md") == note


def test_age_counts_only_where_it_is_wanted(ask: Ask) -> None:
    ranking, sources = ask({"guide.md": 0.5})
    assert boost_recent([], sources)(ranking) is ranking


# --- by settings ----------------------------------------------------------------------------------


def stages_of(library: Library, query: str, uri: str) -> list[str]:
    found = library.search(query, explain=True)
    hit = next(each for each in found.hits if each.uri == uri)
    return [each.stage for each in hit.explanation]


@pytest.mark.parametrize(
    ("settings", "given", "absent"),
    [
        ({}, "links", ("community", "recent", "neighbour")),
        ({"search.neighbours": 0}, "", ("links",)),
        ({"search.link_lift": 0}, "", ("links",)),
        ({"search.edge_related": 0, "search.edge_implements": 0}, "links", ()),
        ({"search.communities": True}, "community", ()),
        ({"search.communities": True, "search.community_factor": 1}, "", ("community",)),
        ({"search.recency": True}, "recent", ()),
        ({"search.recency": True, "search.recency_days": 0, "search.recency_late_days": 0}, "",
         ("recent",)),
    ],
)  # fmt: skip
def test_each_stage_is_switched_by_settings(
    tmp_path: Path, settings: dict[str, object], given: str, absent: Sequence[str]
) -> None:
    root = written(
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


def test_the_preset_of_ragdocs_switches_them_all_on() -> None:
    chosen = config.load(None, {"preset": "ragdocs"}, {}).search
    assert (chosen.join_neighbours, chosen.neighbour_score) == (True, 0.5)
    assert (chosen.communities, chosen.community_factor) == (True, 1.1)
    assert chosen.recency
    assert (chosen.recency_days, chosen.recency_factor) == (7, 1.2)
    assert (chosen.recency_late_days, chosen.recency_late_factor) == (30, 1.1)


def test_a_document_tells_what_each_of_its_links_expresses(tmp_path: Path) -> None:
    """All five, by where links stand in real files, one way and the other."""
    root = written(tmp_path, FILES)
    with Library.open(
        root, index_dir=tmp_path / "indexes", settings={"embed.provider": "none"}
    ) as library:
        library.index()

        def told(uri: str, kind: Literal["links", "backlinks"]) -> dict[str, object]:
            return {each.uri: each.relation for each in library.related(uri, kinds=(kind,)).entries}

        assert told("guide.md", "links") == {"setup.md": "links_to", "colours.md": "related"}
        assert told("notes/one.md", "links") == {
            "guide/install.md": "transclusion", "tool.py": "implements",
        }  # fmt: skip
        assert told("notes/one.md", "backlinks") == {"tests/test_plan.md": "tests"}


def test_a_neighbour_joins_the_answer_where_that_is_set(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        {
            "guide.md": "# Zebra\n\nzebra [rules](rules.md)\n",
            "rules.md": "# Rules\n\nof crossings\n",
        },
    )
    found = {}
    for joining in (False, True):
        explicit = {"embed.provider": "none", "search.join_neighbours": joining}
        with Library.open(root, index_dir=tmp_path / "indexes", settings=explicit) as library:
            found[joining] = {hit.uri: hit.score for hit in library.search("zebra").hits}
    assert found[False].keys() == {"guide.md"}
    assert found[True] == {
        "guide.md": found[False]["guide.md"],
        "rules.md": pytest.approx(found[False]["guide.md"] / 2, abs=1e-5),
    }
