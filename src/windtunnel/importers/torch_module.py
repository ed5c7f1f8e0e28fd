"""Operators of any `torch.nn.Module`, by running it on tensors without data.

The module runs once under PyTorch's fake tensors: shapes and types are real, memory and arithmetic are not, so a model
of any size is traced on a laptop. Every ATen call becomes an operator of `windtunnel.graph`: matrix products and
convolutions with (m, n, k), fused attention with its query-key pairs, everything else with the bytes that it reads and
writes (views move nothing). The FLOP count is checked against PyTorch's own `FlopCounterMode`, which runs in a second
pass.

PyTorch is an optional extra: `pip install windtunnel[torch]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.graph import Block, Kind, Operator, Tensor, forward_flop

_FREE = frozenset({"detach", "alias", "empty", "empty_like", "lift_fresh", "sym_size", "_unsafe_view", "is_same_size"})
"""Calls that neither read nor write a tensor."""


@dataclass(frozen=True, slots=True)
class TracedGraph:
    """One forward run of a module."""

    operators: tuple[Operator, ...]
    """In execution order; sizes of the example inputs, unsharded."""
    num_params: int
    """Distinct parameters; one that several modules share counts once."""
    dense_flop: float
    """Forward FLOPs as PyTorch counts them: attention without credit for a causal mask."""
    counted_flop: float
    """Forward FLOPs that `torch.utils.flop_counter.FlopCounterMode` counts."""
    other_calls: Mapping[str, int]
    """ATen calls that became memory traffic → number."""

    @property
    def forward_flop(self) -> float:
        """FLOPs that a kernel which skips masked pairs runs."""
        return sum(forward_flop(op) for op in self.operators)

    @property
    def disagreement(self) -> float:
        """(ours − PyTorch's) / PyTorch's FLOPs; 0 when both found none."""
        if not self.counted_flop:
            return float(self.dense_flop > 0)
        return self.dense_flop / self.counted_flop - 1.0

    def block(self, kind: str = "traced") -> Block:
        """The operators as one block. Only the input of each matrix product is kept for backward."""
        kept = tuple(
            Tensor(f"{op.name}_input", op.m * op.k * op.groups, "full", producer="", consumers=(op.module,))
            for op in self.operators
            if op.kind in (Kind.GEMM, Kind.BATCHED_GEMM)
        )
        return Block(kind, self.operators, kept, sum(op.params for op in self.operators))


def trace_module(
    module: Any, example_inputs: Sequence[Any] = (), example_kwargs: Mapping[str, Any] | None = None
) -> TracedGraph:
    """Run a module on fake tensors and collect what it would compute.

    Args:
        module: a `torch.nn.Module`; its weights are not read, a module on the meta device works as well.
        example_inputs: positional arguments of one call; tensors give shapes and types, their data is not used.
        example_kwargs: keyword arguments of the call.

    Raises:
        BadInput: PyTorch is not installed, or the module cannot run on tensors without data.
    """
    torch = require_torch()
    if not isinstance(module, torch.nn.Module):
        raise BadInput(Problem("module", "must be a torch.nn.Module", type(module).__name__))
    recorder = _Recorder(torch, module)
    _run(torch, module, example_inputs, example_kwargs or {}, recorder.mode(), recorder.own)
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    aten = torch.ops.aten  # products with a vector are not in PyTorch's table
    vector = {aten.mv: lambda a, b, **_: 2 * a[0] * a[1], aten.addmv: lambda c, a, b, **_: 2 * a[0] * a[1]}
    counter = FlopCounterMode(display=False, custom_mapping=vector)
    with sdpa_kernel(SDPBackend.MATH):  # as plain products: not every fused kernel is in PyTorch's table
        _run(torch, module, example_inputs, example_kwargs or {}, counter)
    params = {id(p): p.numel() for p in module.parameters()}
    return TracedGraph(
        tuple(recorder.operators),
        sum(params.values()),
        recorder.dense_flop,
        float(counter.get_total_flops()),
        dict(sorted(recorder.other.items())),
    )


def require_torch() -> Any:
    """The package `torch`.

    Raises:
        BadInput: PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        rule = "importing a module needs PyTorch, which is not installed; pip install windtunnel[torch]"
        raise BadInput(Problem("torch", rule)) from None
    return torch


def _run(
    torch: Any,
    module: Any,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    mode: Any,
    own: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> None:
    """One forward call on fake copies of weights and inputs, inside `mode`; `own` sees the copies of the parameters.

    Fused CPU kernels that hide their products (attention's fast path, recurrent layers) are switched off.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.func import functional_call
    from torch.utils._pytree import tree_map

    fake = FakeTensorMode()

    def empty(x: Any) -> Any:
        return fake.from_tensor(x, static_shapes=True) if isinstance(x, torch.Tensor) else x

    weights = {name: empty(x) for name, x in module.named_parameters()}
    own(weights)
    weights |= {name: empty(x) for name, x in module.named_buffers()}
    args, named = tree_map(empty, tuple(inputs)), tree_map(empty, dict(kwargs))
    try:
        with ExitStack() as stack:
            fast = torch.backends.mha.get_fastpath_enabled()
            stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
            torch.backends.mha.set_fastpath_enabled(False)
            onednn = torch.backends.mkldnn
            stack.callback(setattr, onednn, "enabled", onednn.enabled)
            onednn.enabled = False
            for context in (torch.no_grad(), fake, mode):
                stack.enter_context(context)
            functional_call(module, weights, args, named)
    except BadInput:
        raise
    except Exception as error:  # whatever the module itself raises, in one line
        reason = (str(error).strip().splitlines() or [""])[0]
        rule = f"cannot run on the example inputs without data: {type(error).__name__}: {reason}"
        raise BadInput(Problem("module", rule, type(module).__name__)) from error


class _Recorder:
    """Turns ATen calls into operators, each named after the module that made it."""

    def __init__(self, torch: Any, module: Any) -> None:
        self.torch = torch
        self.module = module
        self.operators: list[Operator] = []
        self.dense_flop = 0.0
        self.other: dict[str, int] = {}
        self._path: list[str] = []
        self._unclaimed: dict[int, float] = {}
        """Storage of a parameter that no operator has read yet → elements."""
        self._leaf_type = {name: type(child).__name__ for name, child in module.named_modules()}
        self._count: dict[str, int] = {}

    def own(self, weights: Mapping[str, Any]) -> None:
        """Take note of the parameters; each goes to the first operator that reads it or a view of it."""
        for weight in weights.values():
            place = _storage(weight)
            self._unclaimed[place] = self._unclaimed.get(place, 0.0) + float(weight.numel())

    def _claim(self, *values: Any) -> float:
        from torch.utils._pytree import tree_leaves

        read = {_storage(x) for x in tree_leaves(values) if isinstance(x, self.torch.Tensor)}
        return sum(self._unclaimed.pop(place, 0.0) for place in sorted(read))

    def mode(self) -> Any:
        """A dispatch mode that records, with module paths tracked while it is active."""
        from torch.utils import _python_dispatch

        recorder = self
        base: Any = _python_dispatch.TorchDispatchMode

        class Record(base):  # type: ignore[misc]
            def __enter__(self) -> Any:
                recorder._hooks = recorder._track()
                return super().__enter__()

            def __exit__(self, *exc: Any) -> Any:
                for hook in recorder._hooks:
                    hook.remove()
                return super().__exit__(*exc)

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                out = func(*args, **(kwargs or {}))
                recorder.record(func, args, kwargs or {}, out)
                return out

        return Record()

    _hooks: list[Any]

    def _track(self) -> list[Any]:
        hooks = []
        for name, child in self.module.named_modules():

            def enter(_module: Any, _args: Any, path: str = name) -> None:
                self._path.append(path)

            def leave(_module: Any, _args: Any, _out: Any) -> None:
                self._path.pop()

            hooks += [child.register_forward_pre_hook(enter), child.register_forward_hook(leave)]
        return hooks

    def record(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Note one ATen call."""
        packet = func._schema.name.split("::")[-1]
        if packet in _FREE or _is_view(func) or not _has_tensor(self.torch, out):
            return
        path = self._path[-1] if self._path else ""
        number = self._count[path] = self._count.get(path, -1) + 1
        name = f"{path or 'root'}.{packet}" + (f".{number}" if number else "")
        params = self._claim(args, kwargs)
        sizes = _PRODUCTS.get(packet)
        if sizes is not None:
            m, n, k, groups = sizes(args, kwargs, out)
            kind = Kind.GEMM if groups == 1 else Kind.BATCHED_GEMM
            linear = self._leaf_type.get(path) == "Linear"
            self.dense_flop += 2.0 * m * n * k * groups
            self.operators.append(
                Operator(
                    name=name,
                    module=path,
                    kind=kind,
                    rule="full",
                    m=m,
                    n=n,
                    k=k,
                    groups=groups,
                    params=params,
                    number_class="linear" if linear else "bf16",
                )
            )
            return
        if packet.startswith("_scaled_dot_product"):
            self.operators.append(self._attention(func, name, path, args, kwargs))
            return
        moved = _bytes(self.torch, args) + _bytes(self.torch, kwargs) + _bytes(self.torch, out)
        if packet == "embedding":  # reads the rows that are looked up, not the table
            moved = _bytes(self.torch, args[1]) + 2 * _bytes(self.torch, out)
        self.other[packet] = self.other.get(packet, 0) + 1
        self.operators.append(
            Operator(
                name=name,
                module=path,
                kind=Kind.POINTWISE,
                rule="full",
                forward_bytes=moved,
                backward_bytes=2 * moved,
                params=params,
                forward_kernels=1,
            )
        )

    def _attention(self, func: Any, name: str, path: str, args: Any, kwargs: Any) -> Operator:
        given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | kwargs
        query, key, value = given["query"], given["key"], given["value"]
        batch, heads, q_len, d_qk = (float(x) for x in query.shape)
        kv_heads, kv_len, d_v = float(key.shape[1]), float(key.shape[2]), float(value.shape[-1])
        pairs = batch * q_len * kv_len
        self.dense_flop += 2.0 * pairs * heads * (d_qk + d_v)
        seen = pairs / 2 if given.get("is_causal") else pairs
        return Operator(
            name=name,
            module=path,
            kind=Kind.ATTENTION,
            rule="full",
            m=batch * q_len,
            pairs=seen,
            seq_len=kv_len,
            heads=heads,
            kv_heads=kv_heads,
            d_qk=d_qk,
            d_v=d_v,
        )


def _storage(tensor: Any) -> int:
    """Identity of the storage that a tensor shares with its views."""
    return int(tensor.untyped_storage()._cdata)


def _is_view(func: Any) -> bool:
    """Whether every result only looks at an argument's storage."""
    returns = func._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _has_tensor(torch: Any, value: Any) -> bool:
    from torch.utils._pytree import tree_leaves

    return any(isinstance(x, torch.Tensor) for x in tree_leaves(value))


def _bytes(torch: Any, value: Any) -> float:
    from torch.utils._pytree import tree_leaves

    return float(sum(x.numel() * x.element_size() for x in tree_leaves(value) if isinstance(x, torch.Tensor)))


def _matrix(a: Any, b: Any) -> tuple[float, float, float, float]:
    return float(a.shape[-2]), float(b.shape[-1]), float(a.shape[-1]), float(a.shape[0]) if a.dim() == 3 else 1.0


def _vector(a: Any, b: Any) -> tuple[float, float, float, float]:
    return float(a.shape[0]), 1.0, float(a.shape[1]), 1.0


def _convolution(args: Any, out: Any) -> tuple[float, float, float, float]:
    """Sizes of a convolution as a product over output positions, of a transposed one over input positions."""
    image, weight = args[0], args[1]
    transposed, groups = bool(args[6]), float(args[8])
    taps = 1.0
    for size in weight.shape[2:]:
        taps *= float(size)
    positions_of = image if transposed else out
    positions = float(positions_of.shape[0])
    for size in positions_of.shape[2:]:
        positions *= float(size)
    ins, outs = float(image.shape[1]) / groups, float(out.shape[1]) / groups
    return (positions, outs * taps, ins, groups) if transposed else (positions, outs, ins * taps, groups)


_PRODUCTS: dict[str, Callable[[Any, Any, Any], tuple[float, float, float, float]]] = {
    "mm": lambda args, kwargs, out: _matrix(args[0], args[1]),
    "bmm": lambda args, kwargs, out: _matrix(args[0], args[1]),
    "addmm": lambda args, kwargs, out: _matrix(args[1], args[2]),
    "baddbmm": lambda args, kwargs, out: _matrix(args[1], args[2]),
    "_scaled_mm": lambda args, kwargs, out: _matrix(args[0], args[1]),
    "_int_mm": lambda args, kwargs, out: _matrix(args[0], args[1]),
    "mv": lambda args, kwargs, out: _vector(args[0], args[1]),
    "addmv": lambda args, kwargs, out: _vector(args[1], args[2]),
    "convolution": lambda args, kwargs, out: _convolution(args, out),
    "_convolution": lambda args, kwargs, out: _convolution(args, out),
}
"""ATen call → (m, n, k, groups)."""
