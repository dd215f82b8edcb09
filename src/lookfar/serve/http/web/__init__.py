"""The web page for looking at an index, and the JSON routes it uses.

``/`` is a page of plain files without a build step; ``/api/...`` is JSON that other programs may
use, too. Nothing in a document is ever executed: ``static_files`` sets the browser's policy.
"""
