"""Output, error reports and exit codes of the command line.

Every exception becomes ``error CODE: message`` and ``hint:`` on stderr, or an error object on
stdout with ``--json``, and one of the exit codes of ``docs/errors.md``. Stack traces are shown
with ``--verbose`` only.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from io import StringIO
from typing import Any, Final, cast

import click

from lookfar.config import wants_colours
from lookfar.errors import InvalidArgument, LookfarError, as_out_of_memory, from_os_error
from lookfar.serve.cli.options import get_examples
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_json, safe_name, safe_text

INTERRUPTED: Final = 130
"""What shells report for a program that Ctrl-C ended."""
CHECK_FAILED: Final = 9
"""The command worked, but a check failed or a target was missed."""
_CLICK_INTEGER: Final = re.compile(r"is not a valid integer( range)?")


class _PipeClosed(Exception):
    """The program that reads our output, such as ``head``, has ended."""


class GuardedGroup(click.Group):
    """A group of commands that reports errors, and prints its help if no command is named."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options | {"invoke_without_command": True})

    def invoke(self, ctx: click.Context) -> Any:
        result = super().invoke(ctx)
        if ctx.invoked_subcommand is None:
            write(ctx.get_help())
        return result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        if not standalone_mode:
            return super().main(arguments, prog_name, complete_var, False, **extra)
        _escape_unprintable()
        sys.exit(self._run(arguments, prog_name or "lookfar", complete_var, extra))

    def _run(
        self, arguments: list[str], prog_name: str, complete_var: str | None, extra: dict[str, Any]
    ) -> int:
        options = arguments[: arguments.index("--")] if "--" in arguments else arguments
        as_json, verbose = "--json" in options, "--verbose" in options
        try:
            # ctx.exit() returns its code here; so do commands that return one.
            result = super().main(arguments, prog_name, complete_var, False, **extra)
            sys.stdout.flush()
            return result if isinstance(result, int) else 0
        except _PipeClosed:
            return 0
        except (KeyboardInterrupt, click.Abort):
            click.echo("\nStopped. The last finished index is intact.", err=True)
            return INTERRUPTED
        except click.ClickException as error:
            converted = _convert_usage_error(error, *self._find_command(arguments))
            return _report_error(converted, as_json, verbose)
        except LookfarError as error:
            return _report_error(error, as_json, verbose)
        except OSError as error:
            if _is_closed_pipe(error):
                return 0
            return _report_error(from_os_error(error, "working"), as_json, verbose)
        except Exception as error:
            return _report_error(_convert_unexpected(error), as_json, verbose)

    def _find_command(self, arguments: Sequence[str]) -> tuple[str, click.Command]:
        """Return the command that arguments name, and how it is called."""
        path, command = "lookfar", cast("click.Command", self)
        for argument in arguments:
            if not isinstance(command, click.Group):
                break
            if argument in command.commands:
                path, command = f"{path} {argument}", command.commands[argument]
        return path, command

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Keep the order in which commands were added instead of sorting by name."""
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
    """Write a result to stdout. Anything that is not a result goes to stderr."""
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    except OSError as error:
        # click would turn a closed pipe into exit code 1.
        if _is_closed_pipe(error):
            raise _PipeClosed from error
        raise


def write_json(value: Any) -> None:
    write(safe_json(value, ascii_only=not _stdout_is_utf8()))


def write_either(as_json: bool, shape: Any, text: str) -> None:
    """Print a result: ``shape`` with ``--json``, otherwise ``text``."""
    if as_json:
        write_json(shape)
    else:
        write(text)


def write_result(as_json: bool, name: str, *result: Any, **options: Any) -> None:
    """Print a result, formatted by ``json_shapes.NAME`` with ``--json``, otherwise ``render.NAME``.

    ``render`` is imported only when it is used, so that ``--help`` stays fast.
    """
    if as_json:
        write_json(getattr(json_shapes, name)(*result, **options))
    else:
        from lookfar.serve.show import render

        write(getattr(render, name)(*result, **options))


def write_table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
    """Print rows in aligned columns, or ``empty`` if there are none."""
    from lookfar.serve.show import render

    write(render.table(heads, rows) if rows else empty)


def _write_error_line(label: str, text: str, **style: Any) -> None:
    coloured = wants_colours(sys.stderr.isatty())
    click.echo((click.style(label, **style) if coloured else label) + text, err=True, color=True)


def _report_error(error: LookfarError, as_json: bool, verbose: bool) -> int:
    try:
        if verbose:
            trace = "".join(traceback.format_exception(error.__cause__ or error))
            click.echo(safe_text(f"{trace}{error.code}: {error.developer}"), err=True)
        if as_json:
            write_json(json_shapes.error(error))
            sys.stdout.flush()
        else:
            message, hint = safe_name(error.message), safe_name(error.hint)
            _write_error_line(f"error {error.code}:", f" {message}", fg="red", bold=True)
            _write_error_line("hint:", f" {hint}", fg="cyan")
    except OSError as failure:
        if not _is_closed_pipe(failure):
            raise
    return error.exit_code


def _convert_usage_error(
    error: click.ClickException, path: str, command: click.Command
) -> LookfarError:
    if isinstance(error, click.FileError):
        return LookfarError(error.format_message(), hint="Check the path.")
    ctx = getattr(error, "ctx", None)
    # Click does not say in which command an option has too few values.
    hint = f"See: {ctx.command_path if ctx else path} --help"
    message = error.format_message()
    if isinstance(error, click.BadParameter):
        message = _CLICK_INTEGER.sub("is not a whole number", message)
    if isinstance(error, click.MissingParameter) and ctx and (lines := get_examples(ctx.command)):
        hint = f"For example: {lines[0]}  {hint}"
    if isinstance(error, click.BadOptionUsage) and (option := _find_option(command, error)):
        metavar = option.make_metavar(click.Context(command))
        values = f"{option.nargs} values" if option.nargs > 1 else "a value"
        message = f"Option {error.option_name} needs {values}: {metavar}."
        lines = [line for line in get_examples(command) if error.option_name in line.split()]
        hint = f"For example: {lines[0]}  {hint}" if lines else hint
    if isinstance(error, click.NoSuchOption):
        message = f"There is no option {error.option_name}."
        if ctx is not None and ctx.parent is None and _is_command_option(ctx, error.option_name):
            hint = f"Write it after the command: lookfar search QUERY {error.option_name}"
        elif near := _choose_similar(error.option_name, error.possibilities or ()):
            hint = f"Did you mean {' or '.join(near)}? {hint}"
    return InvalidArgument(message, hint=hint)


def _find_option(command: click.Command, error: click.BadOptionUsage) -> click.Option | None:
    """Return the option that was given too few values, or None."""
    options = (option for option in command.params if isinstance(option, click.Option))
    named = (option for option in options if error.option_name in option.opts)
    return next((option for option in named if not option.is_flag), None)


def _choose_similar(option: str, possibilities: Sequence[str]) -> list[str]:
    """Return options with a similar name. Unlike click, ignore the dashes."""
    name = option.lstrip("-")
    near = get_close_matches(name, [possible.lstrip("-") for possible in possibilities])
    return sorted(
        possible
        for possible in possibilities
        if possible.lstrip("-") in near or possible.startswith(option)
    )


def _is_command_option(ctx: click.Context, option: str) -> bool:
    commands = ctx.command.commands.values() if isinstance(ctx.command, click.Group) else ()
    return any(option in parameter.opts for command in commands for parameter in command.params)


def _convert_unexpected(error: Exception) -> LookfarError:
    kind = type(error).__name__
    converted = as_out_of_memory(error) or LookfarError(
        f"Something went wrong inside Lookfar ({kind}).",
        hint="This is a bug. Run the command again with --verbose and report what it prints.",
        developer=f"{kind}: {error}",
    )
    converted.__cause__ = error
    return converted


def _is_closed_pipe(error: OSError) -> bool:
    """Return whether our reader has ended; if so, silence Python's own flush at exit."""
    if error.errno != (errno.EINVAL if os.name == "nt" else errno.EPIPE):
        return False
    sys.stdout, sys.stderr = StringIO(), StringIO()
    return True


def _stdout_is_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _escape_unprintable() -> None:
    """Escape characters that the terminal's encoding lacks instead of failing on them."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
