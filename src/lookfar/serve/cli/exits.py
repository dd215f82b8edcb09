"""How a command ends: every exception as one sentence, one hint and one exit code.

Takes: whatever a command raises. Gives: ``error CODE: message`` and ``hint:`` on
stderr, or with ``--json`` the error object on stdout, and the exit code of
``docs/errors.md``. Refuses: to show a stack trace unless ``--verbose`` asks.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from io import StringIO
from typing import Any

import click

from lookfar.config import wants_colours
from lookfar.errors import InvalidArgument, LookfarError, as_out_of_memory, from_os_error
from lookfar.serve.cli.options import examples_of
from lookfar.serve.show.json_shapes import error as error_shape
from lookfar.serve.show.printable import safe_json, safe_name, safe_text

INTERRUPTED = 130
"""What shells report for a program that Ctrl-C ended."""
FELL_SHORT = 9
"""What was measured or checked is worse than was asked for; the command did its work."""


class _ReaderLeft(Exception):
    """``| head`` or its like has read enough."""


class GuardedGroup(click.Group):
    """A group of commands that never ends in a stack trace."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        if not standalone_mode:
            return super().main(given, prog_name, complete_var, False, **extra)
        _forgive_narrow_terminals()
        sys.exit(self._run(given, prog_name or "lookfar", complete_var, extra))

    def _run(
        self, given: list[str], prog_name: str, complete_var: str | None, extra: dict[str, Any]
    ) -> int:
        options = given[: given.index("--")] if "--" in given else given
        as_json, verbose = "--json" in options, "--verbose" in options
        try:
            # Ctx.exit() comes back as a number, any other result is a command's own.
            result = super().main(given, prog_name, complete_var, False, **extra)
            sys.stdout.flush()
            return result if isinstance(result, int) else 0
        except _ReaderLeft:
            return 0
        except (KeyboardInterrupt, click.Abort):
            click.echo("\nStopped. The last finished index is intact.", err=True)
            return INTERRUPTED
        except click.ClickException as error:
            return _tell(_usage(error), as_json, verbose)
        except LookfarError as error:
            return _tell(error, as_json, verbose)
        except OSError as error:
            if _reader_left(error):
                return 0
            return _tell(from_os_error(error, "working"), as_json, verbose)
        except Exception as error:
            return _tell(_unexpected(error), as_json, verbose)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """In the order in which a person meets them, not the alphabet's."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = get_close_matches(name, self.commands, n=1, cutoff=0.5)
            raise InvalidArgument(
                f"There is no command {name!r}.",
                hint=f"Did you mean {near[0]}?" if near else f"See: {ctx.command_path} --help",
                details={"candidates": near},
            )
        return super().resolve_command(ctx, args)


def write(text: str) -> None:
    """Results, and nothing else, go to stdout."""
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    except OSError as error:
        # click would take it for a failure, and end the program with a 1.
        if _reader_left(error):
            raise _ReaderLeft from error
        raise


def say(first: str, rest: str = "", **style: Any) -> None:
    """A line for people on stderr, its beginning styled where colours are wanted."""
    coloured = wants_colours(sys.stderr.isatty())
    click.echo((click.style(first, **style) if coloured else first) + rest, err=True, color=True)


def write_json(value: Any) -> None:
    write(safe_json(value, ascii_only=not _speaks_unicode()))


def _tell(error: LookfarError, as_json: bool, verbose: bool) -> int:
    try:
        if verbose:
            shown = "".join(traceback.format_exception(error.__cause__ or error))
            click.echo(safe_text(f"{shown}{error.code}: {error.developer}"), err=True)
        if as_json:
            write_json(error_shape(error))
            sys.stdout.flush()
        else:
            say(f"error {error.code}:", f" {safe_name(error.message)}", fg="red", bold=True)
            say("hint:", f" {safe_name(error.hint)}", fg="cyan")
    except OSError as failure:
        if not _reader_left(failure):
            raise
    return error.exit_code


def _usage(error: click.ClickException) -> LookfarError:
    """What click says about arguments, in our shape."""
    if isinstance(error, click.FileError):
        return LookfarError(error.format_message(), hint="Check the path.")
    ctx = getattr(error, "ctx", None)
    hint = f"See: {ctx.command_path if ctx else 'lookfar'} --help"
    message = error.format_message()
    if isinstance(error, click.MissingParameter) and ctx and (shown := examples_of(ctx.command)):
        hint = f"Like this: {shown[0]}  {hint}"
    if isinstance(error, click.NoSuchOption):
        message = f"There is no option {error.option_name}."
        if ctx is not None and ctx.parent is None and _belongs_to_commands(ctx, error.option_name):
            hint = f"Write it after the command: lookfar search QUERY {error.option_name}"
        elif error.possibilities:
            hint = f"Did you mean {' or '.join(sorted(error.possibilities))}? {hint}"
    return InvalidArgument(message, hint=hint)


def _belongs_to_commands(ctx: click.Context, option: str) -> bool:
    commands = ctx.command.commands.values() if isinstance(ctx.command, click.Group) else ()
    return any(option in parameter.opts for command in commands for parameter in command.params)


def _unexpected(error: Exception) -> LookfarError:
    kind = type(error).__name__
    told = as_out_of_memory(error) or LookfarError(
        f"Something went wrong inside Lookfar ({kind}).",
        hint="This is a bug. Run the command again with --verbose and report what it prints.",
        developer=f"{kind}: {error}",
    )
    told.__cause__ = error
    return told


def _reader_left(error: OSError) -> bool:
    """Whether ``| head`` or its like has read enough; then let Python close the pipe in peace."""
    if error.errno != (errno.EINVAL if os.name == "nt" else errno.EPIPE):
        return False
    sys.stdout, sys.stderr = StringIO(), StringIO()
    return True


def _speaks_unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _forgive_narrow_terminals() -> None:
    """A character that the terminal cannot show is written out instead of ending us."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
