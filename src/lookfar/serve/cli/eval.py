"""``lookfar eval``: how well questions are answered, and whether a change made it better.

Takes: a command line. Gives: metrics, comparisons, a plot and files, and for CI an exit code of
its own where a target was missed. Refuses: options that contradict each other, before anything
is asked; and to import the library before the command needs it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lookfar.errors import InvalidArgument
from lookfar.serve.cli.exits import CHECK_FAILED, write, write_json
from lookfar.serve.cli.options import examples, library_options
from lookfar.serve.daemon.session_options import parse_settings
from lookfar.serve.show import progress
from lookfar.serve.show.printable import safe_name

if TYPE_CHECKING:
    from lookfar.evaluate import Comparison, Configuration, Judged, Results

_METRICS = ("ndcg", "mrr", "recall", "success")
"""Those of ``lookfar.evaluate.metrics``, said again so that ``--help`` imports none of it."""
_LINE_SECONDS = 5.0


@examples(
    "lookfar eval questions.jsonl docs",
    "lookfar eval docs --known 200 --mode keyword --mode hybrid",
    "lookfar eval questions.jsonl docs --against search.rerank=true --fail-if-worse",
)
@click.command("eval")
@click.argument("files", nargs=-1, metavar="[FILE] [PATH]...")
@click.option(
    "--top-k", "-k", "k", type=int, default=10, metavar="N", help="Answers that count (10)."
)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(("hybrid", "vector", "keyword")),
    help="Search so. Repeatable: each is measured.",
)
@click.option("--as-of", type=int, metavar="N", help="Ask an earlier generation of the index.")
@click.option(
    "--against",
    "--diff",
    "against",
    multiple=True,
    metavar="KEY=VALUE",
    help="Compare with this setting changed, or with as_of=N. Repeatable.",
)
@click.option("--baseline", metavar="FILE", help="Compare with results that --save kept.")
@click.option(
    "--metric",
    type=click.Choice(_METRICS),
    default="ndcg",
    help="The metric that a comparison is decided by (ndcg).",
)
@click.option("--known", type=int, metavar="N", help="Make so many questions from the corpus.")
@click.option("--seed", type=int, default=0, metavar="N", help="Make others (0).")
@click.option("--plot", metavar="FILE", help="Write a picture: FILE.svg or FILE.html.")
@click.option("--save", metavar="FILE", help="Keep the results as JSON.")
@click.option("--save-queries", metavar="FILE", help="Keep the questions as JSON lines.")
@click.option("--work", metavar="DIR", help="Keep indexes that a comparison needs here.")
@click.option(
    "--fail-under",
    multiple=True,
    metavar="METRIC=VALUE",
    help="End with exit code 9 below this mean. Repeatable.",
)
@click.option(
    "--fail-if-worse",
    is_flag=True,
    help="End with exit code 9 if significantly worse than what it is compared with.",
)
@library_options
@click.pass_context
def eval_(ctx: click.Context, /, files: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Measure how well questions are answered.

    FILE holds judged questions, one JSON object a line. Without it, questions are made from
    the folder itself. PATH is the folder to ask (default: this one); several are asked
    together.
    """
    limits = _limits(options["fail_under"])
    file, paths = _named(files)
    _refuse_contradictions(file, options)
    from lookfar.evaluate import read_results

    baseline = read_results(options["baseline"]) if options["baseline"] else None
    wanted, other = _configurations(options)
    with ExitStack() as stack:
        elsewhere = Path(options["work"]) if options["work"] else Path(stack.enter_context(_away()))
        ask = _Asking(paths, options, elsewhere)
        judged, source = ask.questions(file, wanted[0])
        results = [ask.measured(each, judged) for each in wanted]
        before = baseline or (ask.measured(other, judged) if other else None)
    comparisons = _compared(results[0], before)
    failures = _failures(results[0], comparisons, limits, options)
    shown = [*results, *((before,) if before else ())]
    _keep(options, judged, shown, comparisons)
    from lookfar.serve.show import scoreboard

    if as_json:
        write_json(scoreboard.json_shape(shown, comparisons, source, failures))
    else:
        write(scoreboard.text(shown, comparisons, options["metric"], source))
    for failure in failures:
        click.echo(f"fell short: {failure}", err=True)
    if failures:
        ctx.exit(CHECK_FAILED)


# --- what the command line means --------------------------------------------------------------


def _named(files: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The file of questions, where the first argument is no folder, and the folders."""
    if "" in files:
        raise InvalidArgument("FILE or PATH is empty.", hint="Name a folder; . is this one.")
    late = [each for each in files[1:] if Path(each).is_file()]
    if late:
        raise InvalidArgument(
            f"{late[0]!r} is a file, and only the first argument may be one.",
            hint="Write it like this: lookfar eval questions.jsonl docs",
        )
    if files and not Path(files[0]).is_dir():
        return files[0], files[1:] or (".",)
    return None, files or (".",)


def _refuse_contradictions(file: str | None, options: Mapping[str, Any]) -> None:
    against, baseline = options["against"], options["baseline"]
    if against and baseline:
        raise InvalidArgument(
            "--against and --baseline both say what to compare with.", hint="Give one of them."
        )
    if options["fail_if_worse"] and not (against or baseline):
        raise InvalidArgument(
            "--fail-if-worse has nothing to compare with.",
            hint="Add --baseline FILE or --against KEY=VALUE.",
        )
    if len(options["modes"]) > 1 and (against or baseline):
        raise InvalidArgument(
            "Several modes and a comparison do not go together.",
            hint="Compare two modes so: --mode hybrid --against search.mode=keyword",
        )
    if file is not None and options["known"] is not None:
        raise InvalidArgument(
            "--known makes questions, and FILE has some already.", hint="Give one of them."
        )
    if not 1 <= options["k"] <= 1000:
        raise InvalidArgument(f"-k is {options['k']}.", hint="Choose 1 to 1000.")
    plot = options["plot"]
    if plot and Path(plot).suffix.lower() not in (".svg", ".html"):
        raise InvalidArgument(f"{plot!r} is no picture.", hint="Name it FILE.svg or FILE.html.")
    # After a long measurement it would be too late to say so.
    for name in filter(None, (plot, options["save"], options["save_queries"])):
        if not Path(name).parent.is_dir() or Path(name).is_dir():
            raise InvalidArgument(
                f"{name!r} cannot be written: it is a folder, or lies in none.",
                hint="Name a file in a folder that exists.",
            )


def _limits(given: Sequence[str]) -> dict[str, float]:
    limits: dict[str, float] = {}
    for each in given:
        metric, _, value = each.partition("=")
        try:
            limit = float(value)
        except ValueError:
            limit = -1.0
        if metric.strip() not in _METRICS or not 0 <= limit <= 1:
            raise InvalidArgument(
                f"--fail-under {each!r} is not a metric and a number from 0 to 1.",
                hint=f"Write it like this: --fail-under ndcg=0.8. Metrics: {', '.join(_METRICS)}.",
            )
        limits[metric.strip()] = limit
    return limits


def _configurations(
    options: Mapping[str, Any],
) -> tuple[list[Configuration], Configuration | None]:
    """What is measured, and what it is compared with."""
    from lookfar.evaluate import Configuration

    chosen, as_of = parse_settings(options["settings"]), options["as_of"]
    said = [*options["settings"], *([f"as_of={as_of}"] if as_of is not None else [])]
    wanted = []
    for mode in options["modes"] or (None,):
        settings = {**chosen, **({"search.mode": mode} if mode else {})}
        shown = [*said, *([f"search.mode={mode}"] if mode else [])]
        wanted.append(Configuration(" ".join(shown) or "as configured", settings, as_of))
    if not options["against"]:
        return wanted, None
    changed = []
    for each in options["against"]:
        key, _, value = each.partition("=")
        if key.strip() not in ("as_of", "as-of"):
            changed.append(each)
        elif not value.strip().isdecimal():
            raise InvalidArgument(
                f"--against {each!r} names no generation.", hint="Write --against as_of=3"
            )
        else:
            as_of = int(value)
    settings = {**wanted[0].settings, **parse_settings(tuple(changed))}
    return wanted, Configuration("against " + " ".join(options["against"]), settings, as_of)


# --- asking -----------------------------------------------------------------------------------


@contextmanager
def _away() -> Iterator[str]:
    """A folder for indexes that nobody needs afterwards."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="lookfar-eval-") as folder:
        yield folder


class _Asking:
    """The folders that are asked, and where indexes go that only a comparison needs."""

    def __init__(self, paths: tuple[str, ...], options: Mapping[str, Any], work: Path) -> None:
        self._paths = paths
        self._options = options
        self._work = work

    def questions(self, file: str | None, wanted: Configuration) -> tuple[list[Judged], str]:
        """The questions, and where they come from."""
        from lookfar.evaluate import known_items, open_configuration, read_judged
        from lookfar.evaluate.known import COUNT

        if file is not None:
            return read_judged(file), f"from {Path(file).name}"
        count, seed = self._options["known"], self._options["seed"]
        count = COUNT if count is None else count
        with (
            open_configuration(self._paths, wanted, **self._places()) as library,
            progress.shown(", ".join(library.collections), at_once=False) as tell,
        ):
            made = known_items(library, count=count, seed=seed, on_progress=tell)
        return made, f"made from the folder itself (seed {seed})"

    def measured(self, wanted: Configuration, judged: list[Judged]) -> Results:
        from lookfar.evaluate import evaluate, open_configuration

        with (
            open_configuration(self._paths, wanted, **self._places()) as library,
            progress.shown(", ".join(library.collections), at_once=False) as tell,
            _told(wanted.label) as on_question,
        ):
            return evaluate(
                library,
                judged,
                k=self._options["k"],
                as_of=wanted.as_of,
                label=wanted.label,
                settings=wanted.settings,
                on_progress=tell,
                on_question=on_question,
            )

    def _places(self) -> dict[str, Any]:
        return {"elsewhere": self._work, "index_dir": self._options["index_dir"]}


@contextmanager
def _told(label: str) -> Iterator[Callable[[int, int], None]]:
    """How many questions were asked, on stderr: now and then, on a terminal in one line."""
    alive = sys.stderr.isatty()
    pause = 0.1 if alive else _LINE_SECONDS
    last = time.monotonic()
    wrote = False

    def tell(asked: int, count: int) -> None:
        nonlocal last, wrote
        clock = time.monotonic()
        if clock - last < pause:
            return
        last, wrote = clock, True
        text = f"Asking ({safe_name(label)}): {asked:,} of {count:,} questions"
        click.echo(f"\r{text}\x1b[K" if alive else text, err=True, nl=not alive)

    try:
        yield tell
    finally:
        if alive and wrote:
            click.echo("\r\x1b[K", err=True, nl=False)


# --- what came of it --------------------------------------------------------------------------


def _compared(after: Results, before: Results | None) -> dict[str, Comparison]:
    from lookfar.evaluate import compare

    if before is None:
        return {}
    return {metric: compare(after, before, metric) for metric in _METRICS}


def _failures(
    results: Results,
    comparisons: Mapping[str, Comparison],
    limits: Mapping[str, float],
    options: Mapping[str, Any],
) -> list[str]:
    """A sentence for each target that was missed."""
    failures = [
        f"{metric} is {results.mean(metric):.4f}, under {limit:g}"
        for metric, limit in limits.items()
        if results.mean(metric) < limit
    ]
    found = comparisons.get(options["metric"])
    if options["fail_if_worse"] and found is not None and found.worse:
        failures.append(
            f"{found.metric} fell from {found.before:.4f} to {found.after:.4f} (p = {found.p:.4f})"
        )
    return failures


def _keep(
    options: Mapping[str, Any],
    judged: Sequence[Judged],
    shown: Sequence[Results],
    comparisons: Mapping[str, Comparison],
) -> None:
    """Write the files that were asked for."""
    from lookfar.evaluate.judged import format_questions
    from lookfar.evaluate.results import results_as_json
    from lookfar.serve.show.printable import safe_json
    from lookfar.store.ground.files import write_shared

    if options["save_queries"]:
        write_shared(Path(options["save_queries"]), format_questions(judged).encode())
    if options["save"]:
        write_shared(Path(options["save"]), (safe_json(results_as_json(shown[0])) + "\n").encode())
    if options["plot"]:
        from lookfar.evaluate import plot

        draw = plot.html if options["plot"].lower().endswith(".html") else plot.svg
        drawn = draw(shown, comparisons.get(options["metric"]))
        write_shared(Path(options["plot"]), drawn.encode())
