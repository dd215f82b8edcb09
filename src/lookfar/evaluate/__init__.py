"""Measure how well questions are answered on a user's own corpus.

Questions come from a file of judged questions or are made from the corpus. Each configuration is
scored (nDCG, MRR, recall, success, latency); two can be compared with a significance test, and
drawn. An existing index is never changed: a configuration that needs another one gets its own.
"""

from lookfar.evaluate.compare import Comparison as Comparison
from lookfar.evaluate.compare import advise_tiers as advise_tiers
from lookfar.evaluate.compare import compare as compare
from lookfar.evaluate.judged import Judged as Judged
from lookfar.evaluate.judged import Relevant as Relevant
from lookfar.evaluate.judged import read_judged as read_judged
from lookfar.evaluate.known import known_items as known_items
from lookfar.evaluate.measure import Configuration as Configuration
from lookfar.evaluate.measure import evaluate as evaluate
from lookfar.evaluate.measure import open_configuration as open_configuration
from lookfar.evaluate.results import Results as Results
from lookfar.evaluate.results import Scored as Scored
from lookfar.evaluate.results import read_results as read_results
