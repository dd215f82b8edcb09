"""The configuration of the five systems that Lookfar can replace.

:mod:`~lookfar.config.foreign.systems` has a table for each system: its settings and ours.
``lookfar config migrate`` converts a file with these tables, and the documentation shows them.
While a system's toolset is served, :mod:`~lookfar.config.foreign.trust_layers` reads its
configuration where it is, as further layers of the settings.
"""
