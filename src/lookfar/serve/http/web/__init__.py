"""The page that people look at their index with, and the routes that it asks.

Takes: what a server has open. Gives: ``/``, a page of plain files without a build step, and
``/api/...``, JSON that any other program may ask for, too. Refuses: to run anything that stands
in a document; see :mod:`lookfar.serve.http.web.files` for how the browser is told so.
"""
