"""Makes ``python -m lookfar`` the same as the ``lookfar`` command."""

from __future__ import annotations

from lookfar.serve.entry import main

if __name__ == "__main__":
    main()
