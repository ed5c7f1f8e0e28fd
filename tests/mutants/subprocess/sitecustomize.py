"""Damages the product in a Python process that a test starts while a mutant is tried."""

import json
import os
import sys

if os.environ.get("WINDTUNNEL_MUTANT"):
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import mutant_import
    import mutant_sites

    site = mutant_sites.Site(**json.loads(os.environ["WINDTUNNEL_MUTANT"]))
    sys.meta_path.insert(
        0,
        mutant_import.EditedFinder(lambda file, tree: bool(mutant_sites.apply(tree, site)), {}, site.file),  # type: ignore[arg-type]
    )
