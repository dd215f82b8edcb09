"""A call of a tool as programs make it that wait for the answer and nothing else."""

from __future__ import annotations

from lookfar.common.caller import Progress


class QuietCall:
    client = "tester"

    def check(self) -> None:
        """It is never cancelled."""

    def report(self, progress: Progress) -> None:
        """It shows no progress."""

    def confirm(self, question: str) -> bool:
        return True
