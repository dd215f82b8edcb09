"""Questions on small real folders: phrases, exclusions, typos, synonyms and concepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lookfar.config import load
from lookfar.embed.bundled import BundledEmbedder
from lookfar.embed.hashed import HashedEmbedder
from lookfar.errors import InvalidArgument, ModelUnavailable
from lookfar.library import Library
from lookfar.model import Answer, Filters, Hit
from lookfar.retrieve.question.expand import Concepts, ground_plans, load_concepts
from lookfar.retrieve.question.plan import make_plan
from lookfar.retrieve.retrievers.candidates import gather_candidates
from lookfar.retrieve.stages.boost import find_word_pairs
from lookfar.store.keywords.live_keywords import LiveKeywords
from lookfar.store.sqlite.store import CollectionStore
from sample_files import write_files

pytestmark = pytest.mark.usefixtures("own_home")

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Open = Callable[..., Library]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open a library over a folder of these files."""
    libraries: list[Library] = []

    def make(files: Mapping[str, str], **settings: object) -> Library:
        folder = write_files(tmp_path / f"folder{len(libraries)}", files)
        given = {"embed.provider": "hash", "index.workers": 1}
        given |= {f"search.{key}": value for key, value in settings.items()}
        libraries.append(
            Library.open(folder, index_dir=tmp_path / f"index{len(libraries)}", settings=given)
        )
        return libraries[-1]

    yield make
    for each in libraries:
        each.close()


def uris(answer: Answer) -> list[str]:
    return [hit.uri for hit in answer.hits]


def search_uris(library: Library, query: str, **more: object) -> list[str]:
    return uris(library.search(query, **{"mode": "keyword", **more}))  # type: ignore[arg-type]


def notes(answer: Answer) -> dict[str, str]:
    details = {note.reason: note.detail for note in answer.incomplete}
    return {reason: details[reason] for reason in ("no_phrase", "corrected") if reason in details}


def store_of(library: Library) -> CollectionStore:
    return CollectionStore(library.folder(library.collection).index_dir)


def lift(hit: Hit, stage: str) -> float:
    return sum(step.value for step in hit.explanation if step.stage == stage)


# --- phrases ------------------------------------------------------------------------------------

DRAIN = {
    "beside.md": "# One\n\nTo drain node after node is safe. " + "Other words follow here. " * 5,
    "apart.md": "# Two\n\nEvery node has a drain, and the drain of a node is a drain.\n",
    "turned.md": "# Three\n\nThe node drain command.\n",
}


@pytest.mark.parametrize("mode", ["keyword", "hybrid", "vector"])
def test_quoted_phrase_must_occur(opened: Open, mode: str) -> None:
    library = opened(DRAIN)
    assert search_uris(library, '"drain node"', mode=mode) == ["beside.md"]
    assert set(search_uris(library, "drain node", mode=mode)) == set(DRAIN)


def test_all_phrases_must_occur_in_one_passage(opened: Open) -> None:
    library = opened(DRAIN)
    assert search_uris(library, '"drain node" "is safe"') == ["beside.md"]
    apart = library.search('"drain node" "node drain"', mode="keyword")
    assert "no passage contains all" in notes(apart)["no_phrase"]
    assert set(uris(apart)) == set(DRAIN)


def test_unknown_phrase_is_noted_and_searched_as_words(opened: Open) -> None:
    library = opened(DRAIN)
    answer = library.search('"node safe"', mode="keyword")
    assert notes(answer) == {
        "no_phrase": 'no passage contains "node safe"; searched its words instead'
    }
    assert set(uris(answer)) == set(DRAIN)
    assert notes(library.search('"drain node"', mode="keyword")) == {}


def test_phrase_outside_of_the_filters_is_unknown(opened: Open) -> None:
    library = opened(DRAIN)
    for only in (Filters(glob="t*.md"), Filters(uris=("turned.md",))):
        answer = library.search('"drain node"', mode="keyword", filters=only)
        assert (uris(answer), list(notes(answer))) == (["turned.md"], ["no_phrase"])


def test_phrase_matches_parts_of_names(opened: Open) -> None:
    library = opened(
        {
            "camel.md": "# A\n\nLoad a WebAssembly module here.\n",
            "split.md": "# B\n\nA web assembly has modules. WebAssembly is no module.\n",
            "marked.md": "# C\n\nthe **webassembly**\nmodules\n",
        }
    )
    assert set(search_uris(library, '"webassembly module"')) == {"camel.md", "marked.md"}
    assert search_uris(library, '"WebAssembly module here"') == ["camel.md"]


def test_phrase_filters_before_ranking(opened: Open) -> None:
    """Fails if passages without the phrase are dropped after ranking."""
    files = {f"many{at}.md": f"# {at}\n\nzebra zebra zebra stripes\n" for at in range(40)}
    files["one.md"] = "# Long\n\n" + "filler words go here. " * 60 + "the stripes zebra\n"
    library = opened(files, candidates=5, top_k=5)
    assert search_uris(library, '"stripes zebra"', top_k=5) == ["one.md"]
    assert search_uris(library, '"stripes zebra"', top_k=5, mode="hybrid") == ["one.md"]


LONG = (
    "# Long\n\n## One\n\n" + "The jaguar and the node have a drain. " * 60
    + "\n\n## Two\n\n" + "Words of another kind. " * 90 + "Then drain node and a car jaguar.\n"
)  # fmt: skip


def test_passage_shown_contains_the_phrase(opened: Open) -> None:
    """Fails if all passages of a document with the phrase are admitted."""
    library = opened({"long.md": LONG})
    assert len(library.search("drain", mode="keyword").hits) > 1
    (hit,) = library.search('"drain node"', mode="keyword").hits
    assert "drain node" in hit.text


def test_best_admitted_passage_of_a_document_is_chosen(opened: Open) -> None:
    """Fails if the best passage of all is chosen, and the document dropped with it."""
    library = opened({"long.md": LONG})
    search_uris(library, "jaguar")
    with store_of(library).snapshot() as snapshot:
        (document,) = {place.document for place in snapshot.chunks("long.md")}
        for word, heading in (("car", "One"), ("the node", "Two")):
            without = Filters(without=(word,))
            result = snapshot.best_of_each(["jaguar"], {"body": 1.0}, [document], without)
            assert [place.path[-1] for place, _ in result] == [heading]


def test_phrases_can_be_filters(opened: Open) -> None:
    library = opened(DRAIN)
    only = Filters(phrases=("node drain",))
    assert search_uris(library, "drain node", filters=only) == ["turned.md"]
    without = Filters(without=("node drain", "safe"))
    assert search_uris(library, "drain node", filters=without) == ["apart.md"]


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_words_in_the_order_of_the_question_come_first(opened: Open, mode: str) -> None:
    """Fails without the boost for pairs: the shorter page has the better BM25."""
    files = {
        "phrase.md": "# A\n\nkubernetes pod networking is what we explain.\n",
        "apart.md": "# B\n\nnetworking of a pod under kubernetes, explained.\n",
    }
    question = "kubernetes pod networking"
    plain = search_uris(opened(files, boosts=False), question)
    assert plain[0] == "apart.md"
    answer = opened(files).search(question, mode=mode, explain=True)  # type: ignore[arg-type]
    assert uris(answer)[0] == "phrase.md"
    assert lift(answer.hits[0], "phrase") > 0
    assert lift(answer.hits[1], "phrase") == 0


def test_some_pairs_earn_their_share_of_the_boost(opened: Open) -> None:
    library = opened(
        {
            "half.md": "# A\n\nred green and also then blue\n",
            "none.md": "# B\n\nblue green red\n",
            "far.md": "# C\n\nred green of the blue\n",
        }
    )
    answer = library.search("red green blue", mode="keyword", explain=True)
    lifts = {hit.uri: lift(hit, "phrase") for hit in answer.hits}
    # Two of three contain the first pair, and none the second, which counts more.
    first, second = math.log(1 + 1.5 / 2.5), math.log(1 + 3.5 / 0.5)
    share = 0.1 * first / (first + second)
    wanted = {"half.md": share, "none.md": 0.0, "far.md": share}
    assert lifts == pytest.approx(wanted, abs=1e-6)
    answer = library.search("green of the blue", mode="keyword", explain=True)
    assert {h.uri for h in answer.hits if lift(h, "phrase")} == {"far.md"}


PAIRS = [(left, right, 1) for left, right in
         pairwise("one two six ten red gold pink grey cyan".split())]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("red green blue", [("red", "green", 1), ("green", "blu", 1)]),
        ("red of the green", [("red", "green", 3)]),
        ("red and some of the green", []),
        ("red", []),
        ("getUserById red", []),
        ("red red red", [("red", "red", 1)]),
        ("one two six", PAIRS[:2]),
        ("one two six ten red gold pink grey cyan", PAIRS),
        ("one two six ten red gold pink grey cyan lime", []),
    ],
)
def test_pairs_are_significant_words_close_together(
    text: str, pairs: list[tuple[str, str, int]]
) -> None:
    plan = make_plan(text, mode="keyword", top_k=3, filters=Filters(), embedder=None)
    assert find_word_pairs(plan) == pairs


# --- exclusions ---------------------------------------------------------------------------------

JAGUARS = {
    "cat.md": "# Cat\n\nThe jaguar is a large cat of the forest.\n",
    "car.md": "# Car\n\nThe jaguar is a sports car with a large engine.\n",
    "both.md": "# Both\n\n" + "A jaguar hunts at night. " * 40 + "\n\n## Cars\n\nA jaguar car.\n",
}


@pytest.mark.parametrize("mode", ["keyword", "hybrid", "vector"])
@pytest.mark.parametrize("query", ["jaguar -car", 'jaguar -"car"', "jaguar NOT car"])
def test_exclusions_are_left_out(opened: Open, query: str, mode: str) -> None:
    library = opened(JAGUARS, merge_gap=0)
    answer = library.search(query, mode=mode)  # type: ignore[arg-type]
    assert "car.md" not in uris(answer)
    assert "cat.md" in uris(answer)
    assert not any("car." in hit.text or " car " in hit.text for hit in answer.hits)
    notes = {note.reason: str(note) for note in answer.incomplete}
    assert notes["understood"] == 'Only passages without "car"'


def test_a_sentence_is_not_said_to_be_understood_otherwise(opened: Open) -> None:
    answer = opened(JAGUARS).search('Why does the "jaguar" hunt and NOT sleep?')
    assert "understood" not in {note.reason for note in answer.incomplete}


def test_excluded_phrase_allows_its_words(opened: Open) -> None:
    library = opened(JAGUARS)
    assert "car.md" not in search_uris(library, 'jaguar -"sports car"')
    assert "car.md" in search_uris(library, 'jaguar -"car sports"')


def test_exclusions_make_room_for_others(opened: Open) -> None:
    """Fails if exclusions are dropped from the best hits."""
    files = {f"car{at}.md": "# Car\n\njaguar jaguar jaguar car\n" for at in range(30)}
    files["cat.md"] = "# Cat\n\n" + "words of another kind. " * 40 + " jaguar\n"
    library = opened(files, candidates=5, top_k=5)
    for mode in ("keyword", "hybrid"):
        assert search_uris(library, "jaguar -car", top_k=5, mode=mode) == ["cat.md"]


def test_option_of_a_command_is_not_an_exclusion(opened: Open) -> None:
    library = opened(
        {
            "java.md": "# Java\n\nRun it with `java -jar app.jar`, which starts the program.\n",
            "other.md": "# Java\n\nThe java compiler.\n",
        }
    )
    assert search_uris(library, "java -jar")[0] == "java.md"
    # No document contains -compiler, so it is not an option.
    assert search_uris(library, "java -compiler") == ["java.md"]


# --- unknown words ------------------------------------------------------------------------------


def test_unknown_word_is_replaced_by_nearest_known_one(opened: Open) -> None:
    files = {
        "k.md": "# K\n\nA Kubernetes cluster is drained.\n",
        "z.md": "# Z\n\nZebras of the savannah.\n",
    }
    library = opened(files)
    answer = library.search("kuberentes", mode="keyword")
    assert uris(answer) == ["k.md"]
    assert notes(answer) == {
        "corrected": "no document contains kuberentes; also searched: kubernetes"
    }
    assert uris(library.search("zebars savannah", mode="keyword")) == ["z.md"]
    assert search_uris(library, "xylophone") == []
    assert search_uris(opened(files, typos=False), "kuberentes") == []


def test_words_are_listed_once_until_the_folder_changes(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if every letter typed lists the vocabulary, or if a new word is not found."""
    listed: list[str] = []
    list_words = LiveKeywords.vocabulary

    def note(
        view: LiveKeywords, prefix: str = "", most: int | None = None
    ) -> list[tuple[str, int]]:
        listed.append(prefix)
        return list_words(view, prefix, most)

    monkeypatch.setattr(LiveKeywords, "vocabulary", note)
    library = opened({"z.md": "# Z\n\nZebras of the savannah.\n"})
    assert search_uris(library, "savanah", mode="keyword") == ["z.md"]
    assert search_uris(library, "savannahh", mode="keyword") == ["z.md"]
    assert listed == ["s", "a"]
    (tmp_path / "folder0" / "s.md").write_text("# S\n\nA sailboat.\n", encoding="utf-8")
    library.index()
    assert search_uris(library, "sailbaot", mode="keyword") == ["s.md"]


def test_known_word_is_never_corrected(opened: Open) -> None:
    library = opened({"a.md": "# A\n\nform\n", "b.md": "# B\n\n" + "from " * 9 + "format\n"})
    answer = library.search("form", mode="keyword")
    assert (uris(answer), notes(answer)) == (["a.md"], {})


# --- synonyms -----------------------------------------------------------------------------------


def test_unknown_abbreviation_finds_the_long_form(opened: Open) -> None:
    files = {
        "k.md": "# Cluster\n\nHow kubernetes is upgraded.\n",
        "v.md": "# Other\n\nversion 8 of k and s\n",
    }
    library = opened(files)
    answer = library.search("k8s", mode="keyword")
    assert uris(answer)[0] == "k.md"
    assert "kubernetes" in notes(answer)["corrected"]
    for off in ({"expansion": False}, {"max_expansions": 0}):
        answer = opened(files, **off).search("k8s", mode="keyword")
        assert (uris(answer)[0], notes(answer)) == ("v.md", {})


def test_synonym_does_not_replace_unknown_word(opened: Open) -> None:
    """It adds its documents, but it is neither another spelling nor the correction of a typo.

    Fails if it replaces the word: two common words then outweighed the meaning.
    """
    library = opened({"a.md": "# A\n\nrollback and reverse\n", "b.md": "# B\n\nother\n"})
    answer = library.search("revert", mode="keyword", explain=True)
    assert (uris(answer), notes(answer)) == (["a.md"], {})
    assert lift(answer.hits[0], "keyword") == 0
    assert lift(answer.hits[0], "synonyms") > 0


def test_own_synonyms_are_used(opened: Open) -> None:
    files = {"a.md": "# A\n\nthe frontend team\n", "b.md": "# B\n\nthe backend team\n"}
    assert search_uris(opened(files), "fe") == []
    assert search_uris(opened(files, synonyms=["fe=frontend"]), "fe") == ["a.md"]


def test_synonyms_of_known_word_rank_behind_the_word(opened: Open) -> None:
    files = {
        "exact.md": "# One\n\n" + "Many words that say nothing of it. " * 30 + "The folder.\n",
        "other.md": "# Two\n\ndirectory directory directory\n",
        "none.md": "# Three\n\nsomething else\n",
    }
    both = ["exact.md", "other.md"]
    assert search_uris(opened(files, expand_known=True), "folder") == both
    assert search_uris(opened(files), "folder") == ["exact.md"]
    assert search_uris(opened(files, synonyms=["folder=directory"]), "folder") == both
    assert search_uris(opened(files, expand_known=True, expansion=False), "folder") == ["exact.md"]


@pytest.mark.parametrize("model", [True, False])
def test_synonyms_add_documents_within_the_scale(opened: Open, model: bool) -> None:
    """Neither more passages of a document already found, nor any that would change the scale."""
    long = "# L\n\n## One\n\nfolder\n\n" + "plain words here. " * 150
    files = {f"f{at}.md": f"# {at}\n\nfolder\n" for at in range(3)}
    files |= {
        "long.md": long + "\n\n## Two\n\n" + "directory " * 150,
        "far.md": "# F\n\ndirectory of others\n",
    }
    library = opened(files, candidates=4, top_k=1, expand_known=True)
    search_uris(library, "folder")
    settings = library.settings.search
    plan = make_plan(
        "folder", mode="hybrid" if model else "keyword", top_k=1, filters=Filters(),
        embedder=HashedEmbedder(),
    )  # fmt: skip
    with store_of(library).snapshot() as snapshot:
        (wide,), _ = ground_plans([(plan, snapshot)], settings)
        assert wide.synonyms == {"folder": ("directori", "dir")[: len(wide.synonyms["folder"])]}
        before = gather_candidates(plan, snapshot, settings).candidates
        after = gather_candidates(wide, snapshot, settings).candidates
    assert {candidate.place.uri for candidate in before} == {"f0.md", "f1.md", "f2.md", "long.md"}
    brought = {candidate.place.uri for candidate in after[len(before) :]}
    assert after[: len(before)] == before
    assert brought == (set() if model else {"far.md"})


WORDS = ("config", "configuration", "settings", "folder", "directory", "delete", "remove", "error",
         "exception", "log", "login", "auth", "db", "database", "repo")  # fmt: skip


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_synonyms_never_push_out_an_exact_match(opened: Open, mode: str) -> None:
    """All pairs of words: the document that is first without synonyms and has both stays first.

    Fails if a synonym counts as much as the word (``_SYNONYM`` 1) or more.
    """
    files = {}
    for at, word in enumerate(WORDS):
        other, third = WORDS[(at * 4 + 1) % len(WORDS)], WORDS[(at * 7 + 3) % len(WORDS)]
        text = f"{word} {other} " + f"{third} " * (at % 5) + "plain words here " * (at % 7)
        files[f"d{at}.md"] = f"# Page {at}\n\n{text}\n"
    plain = opened(files, expansion=False)
    wide = opened(files, expand_known=True)
    checked = 0
    for at, left in enumerate(WORDS):
        for right in WORDS[at + 1 :]:
            query = f"{left} {right}"
            before = plain.search(query, mode=mode)  # type: ignore[arg-type]
            first = before.hits[0]
            if {left, right} <= set(first.text.split()):
                checked += 1
                after = wide.search(query, mode=mode)  # type: ignore[arg-type]
                assert after.hits[0].uri == first.uri, query
    assert checked > 10


# --- concepts -----------------------------------------------------------------------------------


def test_the_nearest_terms_are_those_of_the_highest_cosine() -> None:
    import numpy as np

    vectors = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], dtype=np.float16)
    result = Concepts(("east", "near", "mid", "north"), vectors)
    question = np.array([1, 0], dtype=np.float32)
    assert result.nearest(question, 3, 0.0) == ("east", "near", "mid")
    assert result.nearest(question, 3, 0.7) == ("east", "near")
    assert result.nearest(question, 3, 0.5, besides=("east",)) == ("near", "mid")
    assert result.nearest(question, 9, 0.0) == ("east", "near", "mid", "north")
    assert Concepts((), vectors[:0]).nearest(question, 3, 0.0) == ()


def test_vocabulary_has_distinctive_words_and_is_built_once(
    opened: Open,
) -> None:
    files = {f"{at}.md": f"# {at}\n\neverywhere caching{at // 2} word\n" for at in range(6)}
    files |= {f"c{at}.md": "# C\n\neverywhere configures\n" for at in range(2)}
    files |= {f"x{at}.md": "# X\n\neverywhere\n" for at in range(20)}
    library = opened(files)
    search_uris(library, "word")
    embedder = BundledEmbedder()
    with store_of(library).snapshot() as snapshot:
        result = load_concepts(snapshot, embedder)
        assert "configur" in result.terms
        assert "everywher" not in result.terms  # All documents contain it.
        # The model knows words, not stems: this is the vector of the word.
        assert result.nearest(embedder.embed(["configures"])[0], 1, 0.99) == ("configur",)
        assert load_concepts(snapshot, embedder) is result


def test_concepts_add_documents(opened: Open) -> None:
    """The three nearest by default. The hashed model does not relate words, so the query gets the
    vector of a term that it does not contain, through a hypothesis."""
    files = {f"r{at}.md": "# R\n\nrocket\n" for at in range(2)}
    files |= {f"f{at}.md": f"# F\n\nfiller{at} of number {at}\n" for at in range(30)}
    library = opened(files, concepts=True)
    assert library.settings.search.concept_terms == 3
    search_uris(library, "number")
    embedder = HashedEmbedder()
    with store_of(library).snapshot() as snapshot:
        plan = make_plan("zzz", mode="hybrid", top_k=3, filters=Filters(), embedder=embedder)
        plan = replace(plan, vector=embedder.embed(["rocket"])[0])
        (near,), _ = ground_plans([(plan, snapshot)], library.settings.search)
        assert near.concepts == ("rocket",)
        off = replace(library.settings.search, concepts=False)
        assert ground_plans([(plan, snapshot)], off)[0][0].concepts == ()
        result = gather_candidates(replace(near, vector=None), snapshot, library.settings.search)
        assert {candidate.place.uri for candidate in result.candidates} == {"r0.md", "r1.md"}


# --- hypotheses ---------------------------------------------------------------------------------


class Asymmetric(HashedEmbedder):
    """A model that embeds questions differently from answers."""

    def embed_query(self, text: str) -> NDArray[np.float32]:
        raise AssertionError(f"read as a question: {text}")


def test_hypothesis_is_embedded_instead_of_the_question(opened: Open) -> None:
    """It is embedded like the texts of the index, since it could be one of them."""
    embedder = Asymmetric()
    plan = make_plan(
        "how to", mode="vector", top_k=3, filters=Filters(), embedder=embedder,
        hypothesis='Run "drain" first -force',
    )  # fmt: skip
    assert embedder.embedded == ['Run "drain" first -force']
    assert plan.hypothesis
    assert plan.terms == ("how", "to")
    library = opened({"a.md": "# A\n\nzebra stripes\n", "b.md": "# B\n\ngiraffe necks\n"})
    assert search_uris(library, "animal", mode="vector", hypothesis="giraffe necks")[0] == "b.md"
    assert search_uris(library, "animal", mode="vector", hypothesis="zebra stripes")[0] == "a.md"


def test_hypothesis_can_be_disabled_and_needs_a_model(opened: Open) -> None:
    files = {"a.md": "# A\n\nzebra\n"}
    with pytest.raises(InvalidArgument, match="turned off"):
        opened(files, hypothesis=False).search("x", hypothesis="zebra")
    with pytest.raises(InvalidArgument, match="mode keyword"):
        opened(files).search("x", mode="keyword", hypothesis="zebra")
    with pytest.raises(ModelUnavailable, match="needs an embedding model"):
        make_plan("x", mode="hybrid", top_k=3, filters=Filters(), embedder=None, hypothesis="zebra")


# --- fields and kinds ---------------------------------------------------------------------------


def test_front_matter_has_its_own_weights(opened: Open) -> None:
    files = {
        "described.md": "---\ndescription: about ocelots\n---\n# A\n\ntext one\n",
        "keyed.md": "---\nkeywords: [ocelots, cats]\n---\n# B\n\ntext two\n",
        "named.md": "---\naliases: [ocelots]\n---\n# C\n\ntext three\n",
        "other.md": "# D\n\ntext four\n",
    }
    assert set(search_uris(opened(files), "ocelots")) == {"described.md", "keyed.md", "named.md"}
    none = {f"{name}_weight": 0 for name in ("description", "keywords", "aliases", "tags")}
    assert search_uris(opened(files, **none), "ocelots") == []
    for field, first in (("description", "described.md"), ("keywords", "keyed.md")):
        assert search_uris(opened(files, **none | {f"{field}_weight": 2.0}), "ocelots") == [first]


def test_ragdocs_preset_has_its_weights() -> None:
    chosen = load(None, {"preset": "ragdocs"}, {}).search
    assert (
        chosen.title_weight,
        chosen.headings_weight,
        chosen.keywords_weight,
        chosen.description_weight,
        chosen.tags_weight,
        chosen.aliases_weight,
    ) == (3.0, 2.5, 2.5, 2.0, 2.0, 1.5)


def test_share_of_vectors_depends_on_kind_of_question(opened: Open) -> None:
    files = {"a.md": "# A\n\nuse getUserById here\n", "b.md": "# B\n\nanother page\n"}

    def vectors(library: Library, query: str) -> float:
        answer = library.search(query, mode="hybrid", explain=True)
        return max(lift(hit, "vector") for hit in answer.hits)

    assert vectors(opened(files), "getUserById") == 0
    assert vectors(opened(files, adaptive=False), "getUserById") > 0
    assert vectors(opened(files), "another page") > 0


def test_explain_reports_how_the_question_was_understood(opened: Open) -> None:
    library = opened({"a.md": "# A\n\nuse getUserById in the folder of kubernetes\n"})

    def details(query: str) -> str:
        hit = library.search(query, mode="keyword", explain=True).hits[0]
        return next(step.note for step in hit.explanation if step.stage == "question")

    assert details("getUserById") == "identifier"
    assert details("how is it in the folder?") == "question"
    assert details('"the folder" -"red car"') == 'phrase; "the folder"; without red car'
    assert details("k8s getuserbyid") == "phrase; kubernet instead of k8s"
