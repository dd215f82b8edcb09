"""How well questions are answered, measured on a user's own corpus.

Takes: judged questions, or a corpus to make some from, and configurations. Gives: nDCG, MRR,
recall, success and times, comparisons that say whether chance explains them, and a plot.
Refuses: to change an index; what a configuration needs of its own is built elsewhere.
"""

from lookfar.evaluate.compare import Comparison, compare
from lookfar.evaluate.configurations import Configuration, opened
from lookfar.evaluate.judged import Judged, Relevant, read_judged
from lookfar.evaluate.known import known_items
from lookfar.evaluate.measure import evaluate
from lookfar.evaluate.results import Results, Scored, read_results

__all__ = [
    "Comparison",
    "Configuration",
    "Judged",
    "Relevant",
    "Results",
    "Scored",
    "compare",
    "evaluate",
    "known_items",
    "opened",
    "read_judged",
    "read_results",
]
