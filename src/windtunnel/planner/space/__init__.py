"""The candidates: every plan that a search section allows, and the plans that techniques make of them."""
