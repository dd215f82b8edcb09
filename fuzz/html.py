"""HTML to Markdown: the main text of any page, however its tags are nested.

Takes: the bytes of a file. Gives: the extracted text. Refuses: with ``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import target_for

TARGET = target_for(
    "a.html",
    words=(
        "<div>", "</div>", "<p>", "<h1 id=a>", "</h1>", "<ul><li>", "</li>", "</ul>", "<ol>",
        "<table><tr><td>", "</td></tr></table>", "<td rowspan=9 colspan=9>", "<pre><code class=",
        "language-x>", "</pre>", "<a href='", "'>", "</a>", "<main>", "<nav>", "<script>",
        "</script>", "<!--", "-->", "<br>", "&amp;", "&#0;", "<svg><title>", "<math><annotation>",
        "<template>", "<select><option>", "<meta charset=utf-16>", "<meta charset=shift_jis>",
        "hidden", " class=sidebar", "<dl><dt>", "<dd>", "\0", "\u0301", "```", "# ", "<![CDATA[",
    ),
)  # fmt: skip
