"""``lookfar eval``: measure how well questions are answered, and compare configurations."""

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
"""The same as in ``lookfar.evaluate.metrics``, which ``--help`` must not import."""
_LINE_SECONDS = 5.0


@examples(
    "lookfar eval questions.jsonl docs",
    "lookfar eval docs --known 200 --mode keyword --mode hybrid",
    "lookfar eval questions.jsonl docs --against search.rerank=true --fail-if-worse",
    "lookfar eval docs --tiers",
)
@click.command("eval")
@click.argument("files", nargs=-1, metavar="[FILE] [PATH]...")
@click.option(
    "--path", "folder", multiple=True, metavar="PATH",
    help="The folder, which may also be the last argument. Repeatable.",
)  # fmt: skip
@click.option(
    "--top-k",
    "-k",
    "k",
    type=int,
    default=10,
    metavar="N",
    help="Count only the first N hits (10).",
)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(("hybrid", "vector", "keyword")),
    help="The search mode. Repeatable; each one is measured.",
)
@click.option("--as-of", type=int, metavar="N", help="Use an earlier generation of the index.")
@click.option(
    "--against",
    "--diff",
    "against",
    multiple=True,
    metavar="KEY=VALUE",
    help="Compare with this setting, or with generation N (as_of=N). Repeatable.",
)
@click.option("--tiers", is_flag=True, help="Compare with and without the second model.")
@click.option("--baseline", metavar="FILE", help="Compare with results from --save.")
@click.option(
    "--metric",
    type=click.Choice(_METRICS),
    default="ndcg",
    help="The metric that decides a comparison (ndcg).",
)
@click.option("--known", type=int, metavar="N", help="Generate N questions from the folder.")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed for generated questions (0).")
@click.option("--plot", metavar="FILE", help="Write a chart to FILE.svg or FILE.html.")
@click.option("--save", metavar="FILE", help="Save the results as JSON.")
@click.option("--save-queries", metavar="FILE", help="Save the questions as JSON lines.")
@click.option("--work", metavar="DIR", help="Folder for the indexes that a comparison needs.")
@click.option(
    "--fail-under",
    multiple=True,
    metavar="METRIC=VALUE",
    help="Exit with code 9 if the mean is below this. Repeatable.",
)
@click.option(
    "--fail-if-worse",
    is_flag=True,
    help="Exit with code 9 if significantly worse than what it is compared with.",
)
@library_options
@click.pass_context
def eval_(ctx: click.Context, /, files: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Measure how well questions are answered.

    FILE contains judged questions, one JSON object per line. Without it, questions are generated
    from the folder itself. PATH is the folder to search (default: the current one); several are
    searched together.
    """
    limits = _parse_limits(options["fail_under"])
    file, paths = _split_arguments(files, options.pop("folder"))
    _refuse_contradictions(file, options)
    from lookfar.evaluate import read_results

    baseline = read_results(options["baseline"]) if options["baseline"] else None
    configurations, other = _build_configurations(options)
    with ExitStack() as stack:
        work = options["work"] or stack.enter_context(_temporary_folder())
        runner = _Runner(paths, options, Path(work))
        questions, source = runner.load_questions(file, configurations[0])
        if options["tiers"]:
            runner.embed_passages(configurations[0])
        results = [runner.measure(item, questions) for item in configurations]
        before = baseline or (runner.measure(other, questions) if other else None)
    comparisons = _compare(results[0], before)
    advice = _advise(options, comparisons, results[0], before, generated=file is None)
    failures = _find_failures(results[0], comparisons, limits, options)
    columns = [*results, *((before,) if before else ())]
    _save_files(options, questions, columns, comparisons)
    from lookfar.serve.show import scoreboard

    if as_json:
        shape = scoreboard.json_shape(columns, comparisons, source, failures)
        write_json({**shape, "advice": advice} if advice else shape)
    else:
        write(scoreboard.text(columns, comparisons, options["metric"], source))
        if advice:
            write(f"\n{advice}")
    for failure in failures:
        click.echo(f"target missed: {failure}", err=True)
    if failures:
        ctx.exit(CHECK_FAILED)


def _split_arguments(
    files: tuple[str, ...], folders: tuple[str, ...]
) -> tuple[str | None, tuple[str, ...]]:
    """Return the file of questions, if the first argument is not a folder, and the folders."""
    if folders and (len(files) > 1 or any(Path(file).is_dir() for file in files)):
        raise InvalidArgument(
            "The folder is given twice, as an argument and with --path.", hint="Give it once."
        )
    if "" in (*files, *folders):
        raise InvalidArgument(
            "FILE or PATH is empty.", hint="Name a folder; . is the current folder."
        )
    misplaced = [file for file in files[1:] if Path(file).is_file()]
    if misplaced:
        raise InvalidArgument(
            f"{misplaced[0]!r} is a file; only the first argument may be one.",
            hint="For example: lookfar eval questions.jsonl docs",
        )
    if files and not Path(files[0]).is_dir():
        return files[0], files[1:] or folders or (".",)
    return None, files or folders or (".",)


def _refuse_contradictions(file: str | None, options: Mapping[str, Any]) -> None:
    against, baseline = options["against"], options["baseline"]
    if against and baseline:
        raise InvalidArgument(
            "--against and --baseline cannot be combined.", hint="Give one of them."
        )
    if options["tiers"] and (against or baseline or options["as_of"] is not None):
        raise InvalidArgument(
            "--tiers cannot be combined with --against, --baseline or --as-of.",
            hint="Give one of them.",
        )
    if options["fail_if_worse"] and not (against or baseline or options["tiers"]):
        raise InvalidArgument(
            "--fail-if-worse has nothing to compare with.",
            hint="Add --baseline FILE or --against KEY=VALUE.",
        )
    if len(options["modes"]) > 1 and (against or baseline or options["tiers"]):
        raise InvalidArgument(
            "A comparison takes only one --mode.",
            hint="To compare two modes: --mode hybrid --against search.mode=keyword",
        )
    if file is not None and options["known"] is not None:
        raise InvalidArgument(
            "--known generates questions, and FILE already contains some.",
            hint="Give one of them.",
        )
    if not 1 <= options["k"] <= 1000:
        raise InvalidArgument(f"-k is {options['k']}.", hint="Choose 1 to 1000.")
    plot = options["plot"]
    if plot and Path(plot).suffix.lower() not in (".svg", ".html"):
        raise InvalidArgument(
            f"{plot!r} is not an SVG or HTML file.", hint="Name it FILE.svg or FILE.html."
        )
    # Checked now, because a failure after a long measurement would waste it.
    for name in filter(None, (plot, options["save"], options["save_queries"])):
        if not Path(name).parent.is_dir() or Path(name).is_dir():
            raise InvalidArgument(
                f"{name!r} cannot be written: it is a folder, or its folder does not exist.",
                hint="Name a file in a folder that exists.",
            )


def _parse_limits(given: Sequence[str]) -> dict[str, float]:
    limits: dict[str, float] = {}
    for text in given:
        metric, _, value = text.partition("=")
        try:
            limit = float(value)
        except ValueError:
            limit = -1.0
        if metric.strip() not in _METRICS or not 0 <= limit <= 1:
            raise InvalidArgument(
                f"--fail-under {text!r} is not a metric and a number from 0 to 1.",
                hint=f"For example: --fail-under ndcg=0.8. Metrics: {', '.join(_METRICS)}.",
            )
        limits[metric.strip()] = limit
    return limits


def _build_configurations(
    options: Mapping[str, Any],
) -> tuple[list[Configuration], Configuration | None]:
    from lookfar.evaluate import Configuration

    base, as_of = parse_settings(options["settings"]), options["as_of"]
    labels = [*options["settings"], *([f"as_of={as_of}"] if as_of is not None else [])]
    configurations = []
    for mode in options["modes"] or (None,):
        settings = {**base, **({"search.mode": mode} if mode else {})}
        label = " ".join([*labels, *([f"search.mode={mode}"] if mode else [])])
        configurations.append(Configuration(label or "as configured", settings, as_of))
    if options["tiers"]:
        first = configurations[0]
        alone = {**first.settings, "quality.enabled": "off"}
        both = Configuration(f"both models ({first.label})", first.settings)
        return [both], Configuration("first model alone", alone)
    if not options["against"]:
        return configurations, None
    changed = []
    for text in options["against"]:
        key, _, value = text.partition("=")
        if key.strip() not in ("as_of", "as-of"):
            changed.append(text)
        elif not value.strip().isdecimal():
            raise InvalidArgument(
                f"--against {text!r} does not name a generation.",
                hint="For example: --against as_of=3",
            )
        else:
            as_of = int(value)
    settings = {**configurations[0].settings, **parse_settings(changed)}
    label = "against " + " ".join(options["against"])
    return configurations, Configuration(label, settings, as_of)


@contextmanager
def _temporary_folder() -> Iterator[str]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="lookfar-eval-") as folder:
        yield folder


class _Runner:
    """Measures configurations; ``work`` is the folder for indexes that only a comparison needs."""

    def __init__(self, paths: tuple[str, ...], options: Mapping[str, Any], work: Path) -> None:
        self._paths = paths
        self._options = options
        self._work = work

    def load_questions(
        self, file: str | None, configuration: Configuration
    ) -> tuple[list[Judged], str]:
        """Return the questions, and a phrase that says where they come from."""
        from lookfar.evaluate import known_items, open_configuration, read_judged
        from lookfar.evaluate.known import COUNT

        if file is not None:
            return read_judged(file), f"from {Path(file).name}"
        count, seed = self._options["known"], self._options["seed"]
        count = COUNT if count is None else count
        with (
            open_configuration(self._paths, configuration, **self._index_folders()) as library,
            progress.show_progress(", ".join(library.collections), at_once=False),
        ):
            questions = known_items(library, count=count, seed=seed)
        return questions, f"made from the folder itself (seed {seed})"

    def embed_passages(self, configuration: Configuration) -> None:
        """Embed the passages that the second model has not embedded yet."""
        from lookfar.evaluate import open_configuration
        from lookfar.serve.cli.index import embed_folder, require_second_model

        with open_configuration(self._paths, configuration, **self._index_folders()) as library:
            require_second_model(library)
            library.first_index()
            for name in library.collections:
                embed_folder(library.folder(name), quiet=False)

    def measure(self, configuration: Configuration, questions: list[Judged]) -> Results:
        from lookfar.evaluate import evaluate, open_configuration

        with (
            open_configuration(self._paths, configuration, **self._index_folders()) as library,
            progress.show_progress(", ".join(library.collections), at_once=False),
            _count_questions(configuration.label) as on_question,
        ):
            return evaluate(
                library,
                questions,
                k=self._options["k"],
                as_of=configuration.as_of,
                label=configuration.label,
                settings=configuration.settings,
                on_question=on_question,
            )

    def _index_folders(self) -> dict[str, Any]:
        return {"elsewhere": self._work, "index_dir": self._options["index_dir"]}


@contextmanager
def _count_questions(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show on stderr how many questions were asked; on a terminal, in one line."""
    is_terminal = sys.stderr.isatty()
    pause = 0.1 if is_terminal else _LINE_SECONDS
    last = time.monotonic()
    wrote = False

    def on_question(asked: int, count: int) -> None:
        nonlocal last, wrote
        clock = time.monotonic()
        if clock - last < pause:
            return
        last, wrote = clock, True
        text = f"Asking ({safe_name(label)}): {asked:,} of {count:,} questions"
        click.echo(f"\r{text}\x1b[K" if is_terminal else text, err=True, nl=not is_terminal)

    try:
        yield on_question
    finally:
        if is_terminal and wrote:
            click.echo("\r\x1b[K", err=True, nl=False)


def _compare(after: Results, before: Results | None) -> dict[str, Comparison]:
    from lookfar.evaluate import compare

    if before is None:
        return {}
    return {metric: compare(after, before, metric) for metric in _METRICS}


def _advise(
    options: Mapping[str, Any],
    comparisons: Mapping[str, Comparison],
    results: Results,
    before: Results | None,
    *,
    generated: bool,
) -> str:
    """Return what a comparison of tiers means for the user; empty for other comparisons."""
    from lookfar.evaluate import advise_tiers

    if not options["tiers"] or before is None:
        return ""
    return advise_tiers(comparisons[options["metric"]], results, before, generated=generated)


def _find_failures(
    results: Results,
    comparisons: Mapping[str, Comparison],
    limits: Mapping[str, float],
    options: Mapping[str, Any],
) -> list[str]:
    """Return a sentence for each target that was missed."""
    failures = [
        f"{metric} is {results.mean(metric):.4f}, under {limit:g}"
        for metric, limit in limits.items()
        if results.mean(metric) < limit
    ]
    comparison = comparisons.get(options["metric"])
    if options["fail_if_worse"] and comparison is not None and comparison.worse:
        failures.append(
            f"{comparison.metric} fell from {comparison.before:.4f} to {comparison.after:.4f}"
            f" (p = {comparison.p:.4f})"
        )
    return failures


def _save_files(
    options: Mapping[str, Any],
    questions: Sequence[Judged],
    columns: Sequence[Results],
    comparisons: Mapping[str, Comparison],
) -> None:
    from lookfar.evaluate.judged import format_questions
    from lookfar.evaluate.results import results_as_json
    from lookfar.serve.show.printable import safe_json
    from lookfar.store.ground.files import write_shared

    if options["save_queries"]:
        write_shared(Path(options["save_queries"]), format_questions(questions).encode())
    if options["save"]:
        write_shared(
            Path(options["save"]), (safe_json(results_as_json(columns[0])) + "\n").encode()
        )
    if options["plot"]:
        from lookfar.evaluate import plot

        draw = plot.html if options["plot"].lower().endswith(".html") else plot.svg
        drawn = draw(columns, comparisons.get(options["metric"]))
        write_shared(Path(options["plot"]), drawn.encode())
