"""CSV traces: columns by name, whole numbers checked for all lines at once."""

from __future__ import annotations

import csv
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.errors import BadInput, Problem
from windtunnel.extras import extra
from windtunnel.importers.traces.reading import MAX_TOKENS, Source

if TYPE_CHECKING:
    import pandas as pd


class Table:
    """Columns of a CSV file, and the line of each row.

    Args:
        source: the file.
        needed: columns that must be there.
        optional: columns that may be.

    Raises:
        BadInput: a column is missing, or lines have more fields than the header.
    """

    def __init__(self, source: Source, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
        self.source = source
        with source.open() as stream:
            header = next(csv.reader(stream), [])
        places = {name.strip().casefold(): i for i, name in enumerate(header)}
        for name in needed:
            if name.casefold() not in places:
                rule = f"is missing among the columns {', '.join(header)}"
                source.bad(1, name, rule)
        source.check()
        wanted = {name: places[name.casefold()] for name in (*needed, *optional) if name.casefold() in places}
        pandas = extra("pandas")
        try:
            with source.open() as stream, warnings.catch_warnings():
                warnings.simplefilter("error", pandas.errors.ParserWarning)
                frame = pandas.read_csv(
                    stream,
                    header=None,
                    skiprows=1,
                    names=list(range(len(header))),
                    index_col=False,
                    skip_blank_lines=False,
                    low_memory=False,
                )
        except pandas.errors.EmptyDataError:
            frame = pandas.DataFrame({i: [] for i in wanted.values()})
        except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
            self._too_many(len(header))
            source.check()
            raise BadInput(Problem("", f"is not valid CSV: {error}", file=str(source.path))) from None
        frame = frame.dropna(how="all")
        self.lines: Ints = frame.index.to_numpy(np.int64) + 2
        self.columns: dict[str, pd.Series[Any]] = {name: frame[i] for name, i in wanted.items()}

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def numbers(self, column: str, *, needed: bool = True) -> Floats:
        """A column of finite numbers (nan where one is not needed and missing)."""
        values = self.columns[column]
        numbers: Floats = extra("pandas").to_numeric(values, errors="coerce").to_numpy(np.float64)
        wrong = ~np.isfinite(numbers) & (needed | values.notna().to_numpy())
        self._report(column, wrong, "must be a number")
        return numbers

    def counts(self, column: str) -> Ints:
        """A column of whole numbers from 0."""
        numbers: Floats = extra("pandas").to_numeric(self.columns[column], errors="coerce").to_numpy(np.float64)
        with np.errstate(invalid="ignore"):
            wrong = ~((numbers >= 0) & (numbers <= MAX_TOKENS) & (numbers == np.floor(numbers)))
        self._report(column, wrong, f"must be a whole number from 0 to {MAX_TOKENS}")
        counts: Ints = np.where(wrong, 0, numbers).astype(np.int64)
        return counts

    def _report(self, column: str, wrong: Any, rule: str) -> None:
        rows = np.flatnonzero(wrong)
        values = self.columns[column]
        for row in rows[:100]:
            value = values.iloc[row]
            line = int(self.lines[row])
            if extra("pandas").isna(value):
                self.source.bad(line, column, f"is missing; {rule}")
            else:
                self.source.bad(line, column, rule, value.item() if hasattr(value, "item") else value)
        self.source.more += max(len(rows) - 100, 0)

    def wrong(self, column: str, wrong: Any, rule: str) -> None:
        """Note rows whose value in a column breaks a rule."""
        self._report(column, wrong, rule)

    def _too_many(self, fields: int) -> None:
        with self.source.open() as stream:
            for row in (reader := csv.reader(stream)):
                if len(row) > fields:
                    self.source.bad(reader.line_num, "", f"has {len(row)} fields; the header has {fields}")
