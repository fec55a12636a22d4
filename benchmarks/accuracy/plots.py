"""The pictures of the results page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TABLEAU_COLORS
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

from benchmarks.accuracy.grid import Row
from benchmarks.accuracy.results import RowResult
from benchmarks.accuracy.table import accuracy, sampling_error, skip_rate

Grid = Mapping[str, Row]
Results = Mapping[str, RowResult]

_PANEL_INCHES = (4.4, 3.6)
_LABEL_GAP = 0.055  # of a panel's height
_MORE_COLOURS = (
    "navy",
    "darkgoldenrod",
    "teal",
    "indigo",
    "maroon",
    "darkgreen",
    "deeppink",
    "black",
    "steelblue",
)
_LENGTH_ROWS = {
    "Yelp-5": ("yelp5/lstm-small", "yelp5/cifg", "yelp5/clstm", "yelp5/clstm-b", "yelp5/mtlstm-f2s"),
    "IMDB": ("imdb/lstm-small", "imdb/cifg", "imdb/clstm", "imdb/clstm-b", "imdb/mtlstm-f2s"),
}
_CONVERGENCE_ROWS = {
    "SST-2": ("sst2/lstm-small", "sst2/mtlstm-s2f", "sst2/mtlstm-f2s"),
    "IMDB (MT-LSTM paper, Fig. 4)": ("imdb/lstm-small", "imdb/mtlstm-s2f", "imdb/mtlstm-f2s"),
    "Yelp-5 (CLSTM paper, Fig. 3)": ("yelp5/cifg", "yelp5/clstm", "yelp5/blstm", "yelp5/clstm-b"),
}
_SKIP_ROWS = {
    "AG News (Leap-LSTM paper, Table 2)": (
        "ag-news/leap-0",
        "ag-news/leap-25",
        "ag-news/leap-60",
        "ag-news/leap-90",
        "ag-news/lstm",
    ),
}


@dataclass(frozen=True)
class _Line:
    """A row in a panel."""

    title: str
    colour: str
    result: RowResult


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
    columns = min(2, len(sets))
    rows = -(-len(sets) // columns)
    most = max(len(names) for names in sets.values())
    figure = Figure(
        figsize=(_PANEL_INCHES[0] * 1.5 * columns, max(2.6, 0.13 * most) * rows), layout="constrained"
    )
    colours = _colours(grid)
    for index, (title, names) in enumerate(sets.items(), start=1):
        axes = figure.add_subplot(rows, columns, index)
        for name in names:
            cost = results[name].cost
            assert cost is not None
            point = (cost.cpu_microseconds, accuracy(results[name]))
            colour = colours[grid[name].model_name]
            axes.errorbar(
                *point,
                yerr=sampling_error(results[name]),
                fmt="o",
                markersize=4,
                color=colour,
                elinewidth=0.8,
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.margins(x=0.08)
        _name_points(axes, grid, results, names)
        _label(axes, title, "processor µs a document", "test accuracy, %")
    return figure


def _name_points(axes: Axes, grid: Grid, results: Results, names: list[str]) -> None:
    """The names in a column right of the panel, in the points' order and far enough apart, with a line to each."""
    bottom, top = axes.get_ylim()
    ranked = sorted(names, key=lambda name: accuracy(results[name]))
    heights = spread_apart([(accuracy(results[name]) - bottom) / (top - bottom) for name in ranked])
    colours = _colours(grid)
    for name, height in zip(ranked, heights, strict=True):
        cost = results[name].cost
        assert cost is not None
        axes.annotate(
            grid[name].model.title,
            (cost.cpu_microseconds, accuracy(results[name])),
            xytext=(1.04, height),
            textcoords="axes fraction",
            va="center",
            fontsize=6,
            color=colours[grid[name].model_name],
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": "0.7", "shrinkA": 0, "shrinkB": 3},
            annotation_clip=False,
        )


def spread_apart(heights: Sequence[float]) -> list[float]:
    """Rising places for labels, each near its height (0 to 1, rising) and far enough from its neighbours to be read."""
    gap = min(_LABEL_GAP, 1 / max(1, len(heights) - 1))
    places = [0.0] * len(heights)
    for index, height in enumerate(heights):
        places[index] = max(height, places[index - 1] + gap) if index else max(0.0, height)
    highest = 1.0
    for index in reversed(range(len(places))):
        places[index] = min(places[index], highest)
        highest = places[index] - gap
    return places


def _panels(
    groups: Mapping[str, tuple[str, ...]],
    draw: Callable[[Axes, list[_Line], str], None],
    grid: Grid,
    results: Results,
) -> Figure | None:
    colours = _colours(grid)
    found = {
        title: [
            _Line(grid[name].model.title, colours[grid[name].model_name], results[name])
            for name in names
            if name in results and results[name].units
        ]
        for title, names in groups.items()
    }
    found = {title: lines for title, lines in found.items() if lines}
    if not found:
        return None
    figure = _figure(len(found))
    for index, (title, lines) in enumerate(found.items(), start=1):
        draw(figure.add_subplot(1, len(found), index), lines, title)
    return figure


def _curve(axes: Axes, lines: list[_Line], title: str) -> None:
    for line in lines:
        curves = [unit.curve for unit in line.result.units.values()]
        length = min(map(len, curves))
        values = np.array([[100 * accuracy for _, accuracy in curve[:length]] for curve in curves])
        axes.plot(
            [epoch for epoch, _ in curves[0][:length]],
            values.mean(axis=0),
            marker="o",
            markersize=3,
            label=line.title,
            color=line.colour,
        )
    _label(axes, title, "epoch", "dev accuracy, %")
    axes.legend(frameon=False, fontsize=7)


def _lengths(axes: Axes, lines: list[_Line], title: str) -> None:
    for line in lines:
        units = line.result.units.values()
        values = np.mean(
            [[100 * decile.accuracy for decile in unit.test_by_length] for unit in units], axis=0
        )
        documents = [decile.documents for decile in next(iter(units)).test_by_length]
        errors = np.sqrt(values * (100 - values) / documents)
        places = np.arange(1, len(values) + 1)
        axes.plot(places, values, marker="o", markersize=3, label=line.title, color=line.colour)
        axes.fill_between(
            places, values - errors, values + errors, color=line.colour, alpha=0.08, linewidth=0
        )
    _label(axes, title, "length decile of the test documents", "test accuracy, %")
    axes.legend(frameon=False, fontsize=7)


def _skips(axes: Axes, lines: list[_Line], title: str) -> None:
    """Models that read every word become lines across the panel, to compare with."""
    skipping = [(rate, line) for line in lines if (rate := skip_rate(line.result)) is not None]
    axes.errorbar(
        [rate for rate, _ in skipping],
        [accuracy(line.result) for _, line in skipping],
        yerr=[sampling_error(line.result) for _, line in skipping],
        marker="o",
        markersize=4,
        elinewidth=0.8,
    )
    for rate, line in skipping:
        axes.annotate(
            line.title.removeprefix("Leap-LSTM, "),
            (rate, accuracy(line.result)),
            xytext=(5, 5),
            textcoords="offset points",
            fontsize=7,
        )
    for line in lines:
        if skip_rate(line.result) is None:
            axes.axhline(
                accuracy(line.result), color=line.colour, linewidth=0.8, linestyle="--", label=line.title
            )
            axes.legend(frameon=False, fontsize=7)
    axes.margins(x=0.15)
    _label(axes, title, "words skipped, %", "test accuracy, %")


def _colours(grid: Grid) -> dict[str, str]:
    """One colour per model, the same in all pictures."""
    names = dict.fromkeys(row.model_name for row in grid.values())
    palette = [*TABLEAU_COLORS, *_MORE_COLOURS]
    return {name: palette[index % len(palette)] for index, name in enumerate(names)}


def _figure(columns: int) -> Figure:
    return Figure(figsize=(_PANEL_INCHES[0] * columns, _PANEL_INCHES[1]), layout="constrained")


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)
