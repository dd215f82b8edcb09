"""How documents are counted for the filters of the page."""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.serve.http.web.facets import Facet, FacetValues, count_facets


def pairs(facets: Sequence[Facet]) -> list[tuple[str, int]]:
    return [(facet.value, facet.count) for facet in facets]


DOCUMENTS = [
    FacetValues("docs", "a/b/one.md", "markdown", 0, ("x", "y"), "notes"),
    FacetValues("docs", "a/b/two.md", "markdown", 0, ("x",), "notes"),
    FacetValues("code", "a/c.py", "python", 0, (), "notes"),
    FacetValues("commits", "f00d", "", 0, (), "notes@git"),
]


def test_documents_are_counted_below_the_folder() -> None:
    whole = count_facets(DOCUMENTS)
    assert pairs(whole["lane"]) == [("docs", 2), ("code", 1), ("commits", 1)]
    assert pairs(whole["collection"]) == [("notes", 3), ("notes@git", 1)]
    assert pairs(whole["path"]) == [("a/b/", 2)]  # All are below a/, which would narrow nothing.
    assert pairs(whole["language"]) == [("markdown", 2), ("python", 1)]
    assert pairs(whole["tag"]) == [("x", 2), ("y", 1)]
    assert whole["age"] == []
    assert pairs(count_facets(DOCUMENTS, "a/")["path"]) == [("a/b/", 2)]
    more = [*DOCUMENTS, FacetValues("docs", "d/e.md", "", 0)]
    assert pairs(count_facets(more)["path"]) == [("a/", 3), ("d/", 1)]


def test_folders_come_with_the_folders_in_them() -> None:
    uris = ["sea/north/ice.md", "sea/north/fog.md", "sea/south/sun.md", "sea/map.md", "land/x.md"]
    sea, land = count_facets(FacetValues("docs", uri, "", 0) for uri in uris)["path"]
    assert (sea.value, sea.count, land.value) == ("sea/", 4, "land/")
    assert pairs(sea.below) == [("sea/north/", 2), ("sea/south/", 1)]
    assert land.below == ()


def test_a_nested_tag_counts_for_the_tags_above_it_once() -> None:
    tagged = [("project/alpha", "project/beta"), ("Project/Alpha/one",), ("#idea",)]
    facets = count_facets(FacetValues("docs", "n.md", "", 0, tags) for tags in tagged)["tag"]
    project, idea = facets
    assert (project.value, project.count) == ("project", 2)
    assert (idea.value, idea.count) == ("idea", 1)
    alpha, beta = project.below
    assert (alpha.value, alpha.count, beta.count) == ("project/alpha", 2, 1)
    assert [facet.count for facet in alpha.below] == [1]
