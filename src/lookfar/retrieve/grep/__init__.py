"""Search line by line, as ripgrep does, over everything that is indexed."""
