"""``lookfar setup``: add Lookfar to the settings of agents on this machine, and undo it."""
