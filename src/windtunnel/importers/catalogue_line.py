"""The line of the catalogue's file of released models that stands for a Hugging Face `config.json`."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from windtunnel.catalog import store
from windtunnel.errors import BadInput, Problem
from windtunnel.importers.hf_config import checkpoint_formats, read_hf_config
from windtunnel.importers.launch import equal_models


def catalogue_line(config: Path, name: str | None = None, source: str | None = None) -> dict[str, Any]:
    """Fields of the line: name, dimensions or the model that has them, formats of weights, source and date.

    Args:
        config: the file, or its folder; a `hf_quant_config.json` beside it is read too.
        name: of the model; absent: what the file says, or the folder's.
        source: where the file is from; absent: its path.

    Raises:
        BadInput: the file cannot be read as a model, or the catalogue has its name already.
    """
    model = read_hf_config(config, name).model
    if any(store.key(model.name) == store.key(known) for known in store.spellings("models")):
        raise BadInput(Problem("name", "is a name of the catalogue already; --name gives another", model.name))
    line: dict[str, Any] = {"name": model.name}
    same = equal_models(model)
    if same:
        line["like"] = same[0]
    else:
        line |= {"family": model.family, **model.model_dump(mode="json", exclude_defaults=True, exclude={"provenance"})}
    if formats := checkpoint_formats(config):
        line["formats"] = formats
    return line | {"source": source or str(config), "as_of": f"{datetime.date.today():%Y-%m}"}
