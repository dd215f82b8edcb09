"""``lookfar setup``: add Lookfar to the settings of agents on this machine, and undo it.

Only our own part of other programs' files is ever changed.
"""
