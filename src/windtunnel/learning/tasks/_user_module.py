"""A user's Python file that gives a module and its data, and the built-in transformer; PyTorch is imported inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from windtunnel.errors import BadInput, Problem
from windtunnel.files.trust import run_python
from windtunnel.learning.randomness import Draws

FIELD = "learning.task.torch-module"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleAndData:
    """What is trained, and on what; tensors of PyTorch."""

    module: Any
    inputs: Any
    """Shape (samples, …)."""
    targets: Any
    """Shape (samples, …); whole numbers: classes."""
    held_inputs: Any
    held_targets: Any
    loss: Callable[[Any, Any], Any]
    """(outputs, targets) → mean over the batch, a scalar."""
    groups: Any = None
    """What splits divide over workers, whole numbers, shape (samples,); None: nothing to divide by."""


def require_torch() -> Any:
    """The package `torch`, set to use one thread.

    Raises:
        BadInput: PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        rule = "needs PyTorch, which is an extra: pip install 'windtunnel[torch]'"
        raise BadInput(Problem(field="learning.task", value="torch-module", rule=rule)) from None
    torch.set_num_threads(1)
    return torch


def from_file(path: str, seed: int, data_seed: int) -> ModuleAndData:
    """A module and its data from a file with `model()`, `data()` and, where it has one, `loss(outputs, targets)`.

    `data()` gives (inputs, targets), the last tenth of which is held out, or (inputs, targets, held inputs, held
    targets). Without `loss`, whole-number targets are classes (cross-entropy over the last axis of the outputs), others
    have half the squared distance. The file is run as any Python file is.

    Raises:
        BadInput: the file cannot be read or run, lacks a function, or gives something else.
    """
    torch = require_torch()
    user = _loaded(path)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(data_seed)
        data = _called(user, "data", path)
        torch.manual_seed(seed)
        module = _called(user, "model", path)
    if not isinstance(module, torch.nn.Module):
        raise _bad(path, f"model() gives a {type(module).__name__}, not a torch.nn.Module")
    if not isinstance(data, tuple) or len(data) not in (2, 4):
        raise _bad(path, "data() gives something else than (inputs, targets) or (inputs, targets, held, held targets)")
    tensors = [torch.as_tensor(part) for part in data]
    if len(tensors) == 2:
        held = max(1, len(tensors[0]) // 10)
        tensors = [*(part[:-held] for part in tensors), *(part[-held:] for part in tensors)]
    inputs, targets, held_inputs, held_targets = tensors
    if len(inputs) != len(targets) or len(held_inputs) != len(held_targets) or not len(inputs):
        raise _bad(path, f"data() gives {len(inputs)} inputs and {len(targets)} targets")
    own = getattr(user, "loss", None)
    classes = not targets.is_floating_point()
    return ModuleAndData(
        module=module,
        inputs=inputs,
        targets=targets,
        held_inputs=held_inputs,
        held_targets=held_targets,
        loss=own if callable(own) else plain_loss(torch, classes),
        groups=targets if classes and targets.ndim == 1 and int(targets.min()) >= 0 else None,
    )


def plain_loss(torch: Any, classes: bool) -> Callable[[Any, Any], Any]:
    """Cross-entropy over the last axis, or half the squared distance, mean over the batch."""
    f = torch.nn.functional

    def cross_entropy(outputs: Any, targets: Any) -> Any:
        return f.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1))

    def squares(outputs: Any, targets: Any) -> Any:
        return 0.5 * ((outputs - targets) ** 2).sum() / len(targets)

    return cross_entropy if classes else squares


def small_transformer(vocabulary: int, length: int, width: int, layers: int, heads: int, seed: int) -> Any:
    """A causal transformer with learned positions and normalisation before each part.

    Args:
        vocabulary: Tokens, in and out.
        length: Tokens that it sees.
        width: Of the residual stream; a whole number of heads.
        layers: Blocks of attention and an MLP of four times the width.
        heads: Of attention.
        seed: Of its weights.
    """
    torch = require_torch()
    nn, f = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
            self.queries_keys_values = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, tokens, _ = x.shape
            parts = self.queries_keys_values(self.before_attention(x)).chunk(3, dim=-1)
            q, k, v = (part.reshape(batch, tokens, heads, -1).transpose(1, 2) for part in parts)
            scores = q @ k.transpose(-1, -2) / (width // heads) ** 0.5
            later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
            mixed = scores.masked_fill(later, float("-inf")).softmax(dim=-1) @ v
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
            return x + self.down(f.gelu(self.up(self.before_mlp(x))))

    class Transformer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.last, self.logits = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.logits(self.last(x))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer()


def on_markov_text(width: int, layers: int, heads: int, length: int, seed: int, data_seed: int) -> ModuleAndData:
    """The transformer on documents of `markov-lm`'s language; splits divide topics."""
    from windtunnel.learning.tasks.markov_lm import documents, stationary_pairs, transition_laws

    torch = require_torch()
    if width % heads:
        raise BadInput(Problem(field=f"{FIELD}.width", value=width, rule=f"must be a multiple of heads, {heads}"))
    topics, count, held, vocabulary = 8, 4096, 256, 32
    draws = Draws(data_seed)
    laws = transition_laws(vocabulary, topics, 1.0, 1.5, 0.5, draws)
    pairs = np.array([stationary_pairs(law) for law in laws])
    topic = np.arange(count) % topics
    texts = [
        torch.from_numpy(documents(laws, pairs, which, length + 1, draws, purpose))
        for which, purpose in ((topic, "documents"), (topic[:held], "held out"))
    ]
    return ModuleAndData(
        module=small_transformer(vocabulary, length, width, layers, heads, seed),
        inputs=texts[0][:, :-1],
        targets=texts[0][:, 1:],
        held_inputs=texts[1][:, :-1],
        held_targets=texts[1][:, 1:],
        loss=plain_loss(torch, classes=True),
        groups=torch.from_numpy(topic),
    )


def _loaded(path: str) -> ModuleType:
    try:
        return run_python(path, f"{FIELD}.file", "windtunnel_user_module")
    except BadInput:
        raise
    except Exception as error:
        raise _bad(path, f"cannot be run: {_told(error)}") from error


def _called(user: ModuleType, name: str, path: str) -> Any:
    function = getattr(user, name, None)
    if not callable(function):
        raise _bad(path, f"has no function {name}(); it needs model() and data()")
    try:
        return function()
    except Exception as error:
        raise _bad(path, f"{name}() failed: {_told(error)}") from error


def _told(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"


def _bad(path: str, rule: str) -> BadInput:
    return BadInput(Problem(field=f"{FIELD}.file", value=path, rule=rule))
