"""``lookfar doctor``: the command and its checks, one module per topic."""
