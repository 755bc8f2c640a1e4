"""`python -m benchmarks`: speed and quality beside the peers, fleets beside eager loops, the service under load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osamd.cli.app import run_command
from osamd.cli.options import folder
from osamd.reporting.terminal import files, progress

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def bench(
    python: Annotated[Path, typer.Option(help="Python of the environment that holds the peers.")] = Path(
        ".venv-bench/bin/python"
    ),
    repeats: Annotated[int, typer.Option(min=1, help="Interleaved repeats; medians are reported.")] = 5,
    fleets: Annotated[
        bool, typer.Option("--fleets", help="Fleets of networks against plain eager loops instead (the extra deep).")
    ] = False,
    device: Annotated[str, typer.Option(help="With --fleets: cpu, cuda or cuda:N.")] = "cpu",
    service: Annotated[
        bool, typer.Option("--service", help="The service under load, kills and hostile requests instead.")
    ] = False,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="With --service: of load in batches; half of it singly.")
    ] = 60.0,
    kills: Annotated[int, typer.Option(min=0, help="With --service: times it is killed under load.")] = 50,
    hostile: Annotated[int, typer.Option(min=0, help="With --service: requests that nobody should send.")] = 10_000,
    out: Annotated[
        Path, typer.Option(parser=folder, metavar="FOLDER", help="Folder for bench.json and the figure.")
    ] = Path("results/bench"),
) -> None:
    """Measure speed and quality beside River, scikit-learn, Vowpal Wabbit, scikit-activeml, PyTorch and C.

    One process for every peer on the same streams, interleaved, one thread, medians; `make bench` installs the peers
    into an environment of their own first. It takes about five minutes. docs/benchmark.md tells what is measured.
    """
    if fleets:
        from osamd.reproduce import deep

        deep.require_torch()
        from benchmarks import fleets as fleet_bench

        with files(out, "fleets.json") as deliver:
            deliver(fleet_bench.report(device))
        return
    if service:
        from benchmarks import service as service_bench

        with files(out, "service.json") as deliver:
            deliver(service_bench.report(seconds, kills, hostile))
        return
    from benchmarks import report, run

    with files(out, "bench.json", "benchmark") as deliver:
        with progress("bench", run.number_of_runs(repeats)) as step:
            content = run.bench(python, repeats, progress=step)
        deliver(report.report(content))


if __name__ == "__main__":
    raise SystemExit(run_command(app, "python -m benchmarks"))
