"""The pictures of the results page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from benchmarks.accuracy.grid import Row
from benchmarks.accuracy.results import RowResult
from benchmarks.accuracy.table import accuracy, skip_rate

Grid = Mapping[str, Row]
Results = Mapping[str, RowResult]

_PANEL_INCHES = (4.4, 3.6)
_LENGTH_ROWS = {
    "Yelp-5": ("yelp5/lstm-small", "yelp5/cifg", "yelp5/clstm", "yelp5/clstm-b", "yelp5/mtlstm-f2s"),
    "IMDB": ("imdb/lstm-small", "imdb/cifg", "imdb/clstm", "imdb/clstm-b", "imdb/mtlstm-f2s"),
}
_CONVERGENCE_ROWS = {
    "SST-2 (MT-LSTM paper, Fig. 4)": ("sst2/lstm-small", "sst2/mtlstm-s2f", "sst2/mtlstm-f2s"),
    "IMDB": ("imdb/lstm-small", "imdb/mtlstm-s2f", "imdb/mtlstm-f2s"),
    "Yelp-5 (CLSTM paper, Fig. 3)": ("yelp5/cifg", "yelp5/clstm", "yelp5/blstm", "yelp5/clstm-b"),
}
_SKIP_ROWS = {
    "AG News (Leap-LSTM paper, Table 2)": (
        "ag-news/leap-0",
        "ag-news/leap-25",
        "ag-news/leap-60",
        "ag-news/leap-90",
    ),
}


def draw_plots(grid: Grid, results: Results, folder: Path) -> list[str]:
    """Draw every picture for which there are results into `folder`; returns their names."""
    folder.mkdir(exist_ok=True)
    pictures: dict[str, Callable[[Grid, Results], Figure | None]] = {
        "accuracy-against-cost": _cost,
        "convergence": lambda grid, results: _panels(_CONVERGENCE_ROWS, _curve, grid, results),
        "accuracy-by-length": lambda grid, results: _panels(_LENGTH_ROWS, _lengths, grid, results),
        "skip-rate-against-accuracy": lambda grid, results: _panels(_SKIP_ROWS, _skips, grid, results),
    }
    drawn = []
    for name, draw in pictures.items():
        if figure := draw(grid, results):
            # no date or version in the file: the same results give the same picture
            figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
            drawn.append(name)
    return drawn


def _cost(grid: Grid, results: Results) -> Figure | None:
    sets: dict[str, list[str]] = {}
    for name, result in results.items():
        if result.cost and result.units:
            sets.setdefault(grid[name].data.title, []).append(name)
    sets = {title: names for title, names in sets.items() if len(names) > 1}
    if not sets:
        return None
    columns = min(3, len(sets))
    figure = _figure(columns, -(-len(sets) // columns))
    for index, (title, names) in enumerate(sets.items(), start=1):
        axes = figure.add_subplot(-(-len(sets) // columns), columns, index)
        for name in names:
            cost = results[name].cost
            assert cost is not None
            axes.scatter(cost.cpu_microseconds, accuracy(results[name]), s=18)
            axes.annotate(
                grid[name].model.title,
                (cost.cpu_microseconds, accuracy(results[name])),
                xytext=(4, 2),
                textcoords="offset points",
                fontsize=6,
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.margins(x=0.25)
        _label(axes, title, "processor µs a document", "test accuracy, %")
    return figure


def _panels(
    groups: Mapping[str, tuple[str, ...]],
    draw: Callable[[Axes, list[tuple[str, RowResult]], str], None],
    grid: Grid,
    results: Results,
) -> Figure | None:
    found = {
        title: [
            (grid[name].model.title, results[name])
            for name in names
            if name in results and results[name].units
        ]
        for title, names in groups.items()
    }
    found = {title: rows for title, rows in found.items() if rows}
    if not found:
        return None
    figure = _figure(len(found), 1)
    for index, (title, rows) in enumerate(found.items(), start=1):
        draw(figure.add_subplot(1, len(found), index), rows, title)
    return figure


def _curve(axes: Axes, rows: list[tuple[str, RowResult]], title: str) -> None:
    for name, result in rows:
        curves = [unit.curve for unit in result.units.values()]
        length = min(map(len, curves))
        values = np.array([[100 * accuracy for _, accuracy in curve[:length]] for curve in curves])
        axes.plot(
            [epoch for epoch, _ in curves[0][:length]],
            values.mean(axis=0),
            marker="o",
            markersize=3,
            label=name,
        )
    _label(axes, title, "epoch", "dev accuracy, %")
    axes.legend(frameon=False, fontsize=7)


def _lengths(axes: Axes, rows: list[tuple[str, RowResult]], title: str) -> None:
    for name, result in rows:
        values = [[100 * decile.accuracy for decile in unit.test_by_length] for unit in result.units.values()]
        axes.plot(range(1, 11), np.mean(values, axis=0), marker="o", markersize=3, label=name)
    _label(axes, title, "length decile of the test documents", "test accuracy, %")
    axes.legend(frameon=False, fontsize=7)


def _skips(axes: Axes, rows: list[tuple[str, RowResult]], title: str) -> None:
    rates = [skip_rate(result) or 0.0 for _, result in rows]
    axes.plot(rates, [accuracy(result) for _, result in rows], marker="o", markersize=4)
    for rate, (name, result) in zip(rates, rows, strict=True):
        axes.annotate(
            name.removeprefix("Leap-LSTM, "),
            (rate, accuracy(result)),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=7,
        )
    _label(axes, title, "words skipped, %", "test accuracy, %")


def _figure(columns: int, rows: int) -> Figure:
    return Figure(figsize=(_PANEL_INCHES[0] * columns, _PANEL_INCHES[1] * rows), layout="constrained")


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)
