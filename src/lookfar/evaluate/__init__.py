"""Measure how well questions are answered on a user's own corpus.

Questions come from a file of judged questions or are made from the corpus. Each configuration is
scored (nDCG, MRR, recall, success, latency); two can be compared with a significance test, and
drawn. An existing index is never changed: a configuration that needs another one gets its own.
"""

from lookfar.evaluate.compare import Comparison, compare
from lookfar.evaluate.configurations import Configuration, open_configuration
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
    "open_configuration",
    "read_judged",
    "read_results",
]
