"""A signal ends a server that serves one client, whatever its threads do."""

from __future__ import annotations

import os
import signal

import pytest

from python_programs import run_python

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")

PROGRAM = """
import signal, sys, threading, time
from lookfar.serve.daemon.signals import exit_on_signals

def interrupt():
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), int(sys.argv[1]))

with exit_on_signals(lambda: print("closed", flush=True)):
    threading.Thread(target=interrupt, daemon=True).start()
    threading.Event().wait()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_does_not_wake_the_main_thread_ends_the_process(
    number: signal.Signals,
) -> None:
    """Seen to fail when the main thread handled it: one that arrived right before it began to
    wait was noticed at the next request only."""
    done = run_python(PROGRAM, int(number), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "closed\n", "")


def test_afterwards_signals_are_handled_as_before() -> None:
    program = (
        "import os, signal\n"
        "from lookfar.serve.daemon.signals import exit_on_signals\n"
        "with exit_on_signals(lambda: print('closed')):\n    pass\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    signal.pause()\n"
        "except KeyboardInterrupt:\n    print('interrupted', signal.set_wakeup_fd(-1))\n"
    )
    done = run_python(program, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted -1\n"), done.stderr
