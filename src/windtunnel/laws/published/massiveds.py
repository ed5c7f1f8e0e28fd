"""Bytes and seconds of a retrieval tier: passages, embeddings, a flat or a compressed index, and reading it.

Source: Shao et al. 2024 (arXiv 2407.12854):
passages of at most 256 words, embeddings of Contriever-MSMARCO (768 numbers), a flat index. What retrieval does for the
loss is measured there and not modelled here.
"""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.laws import LAWS, Law, Quantity, Question, Values
from windtunnel.systems import card

ENCODER_PARAMETERS = 110e6
"""Contriever is as large as BERT-base."""


def _tier(v: Values, _: Mapping[str, float]) -> dict[str, float]:
    passages = v["tokens"] / (v["passage_words"] * v["tokens_per_word"])
    embeddings = passages * v["dimensions"] * v["element_bytes"]
    index = passages * v["code_bytes"] if v["code_bytes"] else embeddings
    text = v["tokens"] * v["bytes_per_token"]
    searched = index * v["probed"]
    return {
        "passages": passages,
        "index_bytes": index,
        "embedding_bytes": embeddings,
        "text_bytes": text,
        "storage_bytes": text + (embeddings if v["code_bytes"] else 0.0) + index,
        "search_s": searched / v["bytes_per_s"],
        "build_flop": 2.0 * ENCODER_PARAMETERS * v["tokens"],
        "prompt_tokens": v["documents"] * v["passage_words"] * v["tokens_per_word"],
    }


LAWS.add(
    "massiveds",
    Law(
        id="massiveds",
        title="MassiveDS: bytes, seconds and FLOP of a datastore for retrieval",
        source=f"Shao et al. 2024, {card('massiveds').title}",
        link="https://arxiv.org/abs/2407.12854",
        confirmed="256 words, Contriever-MSMARCO, flat index in the authors' data card; tokens of a word assumed",
        valid="at most 1.4T tokens of datastore; storage and search alone, no loss",
        grade="exact",
        quantities={
            "tokens": Quantity(doc="tokens of the datastore", unit="tokens", high=1.4e12, least=1.0, low=1.0),
            "passage_words": Quantity(doc="words of a passage", default=256.0, least=1.0),
            "tokens_per_word": Quantity(doc="tokens of a word", default=1.3, least=0.1),
            "dimensions": Quantity(doc="numbers of an embedding", default=768.0, least=1.0),
            "element_bytes": Quantity(doc="bytes of a number of an embedding", default=2.0, least=0.125),
            "code_bytes": Quantity(doc="bytes of a passage in a compressed index; 0: flat", default=0.0),
            "bytes_per_token": Quantity(doc="text bytes of a token", default=4.0),
            "bytes_per_s": Quantity(doc="rate at which the index is read", unit="B/s", default=1e11, least=1.0),
            "probed": Quantity(doc="share of the index that a query reads", default=1.0, most=1.0),
            "documents": Quantity(doc="passages put before the question", default=3.0),
        },
        questions=(
            Question(
                id="tier",
                summary="Bytes of text, embeddings and index, seconds of a search, FLOP of building.",
                needs=("tokens",),
                may=(
                    "passage_words",
                    "tokens_per_word",
                    "dimensions",
                    "element_bytes",
                    "code_bytes",
                    "bytes_per_token",
                    "bytes_per_s",
                    "probed",
                    "documents",
                ),
                units={
                    "index_bytes": "B",
                    "storage_bytes": "B",
                    "passages": "",
                    "embedding_bytes": "B",
                    "text_bytes": "B",
                    "search_s": "s",
                    "build_flop": "FLOP",
                    "prompt_tokens": "tokens",
                },
                answer=_tier,
            ),
        ),
    ),
)
