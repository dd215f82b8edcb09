"""LaTeX to Markdown: any commands and environments in any nesting.

Takes: the bytes of a file. Gives: the extracted text. Refuses: with ``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import target_for

TARGET = target_for(
    "a.tex",
    words=(
        "\\begin{document}", "\\end{document}", "\\section{", "\\title{", "}", "{", "[", "]", "%",
        "\\begin{itemize}", "\\end{itemize}", "\\item ", "\\item[x]", "\\begin{tabular}{ll}", "&",
        "\\\\", "\\end{tabular}", "\\begin{verbatim}", "\\end{verbatim}", "\\verb|", "$", "$$",
        "\\[", "\\]", "\\(", "\\'e", "\\c{c}", "\\href{a}{b}", "\\footnote{", "\\def\\a{", "\\%",
        "\\begin{lstlisting}[language=C]", "\\begin{frame}{x}", "~", "``", "''", "---", "\n\n",
    ),
)  # fmt: skip
