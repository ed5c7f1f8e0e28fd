"""Jitted functions and the cache of their machine code.

Numba's own cache looks at the file that a function stands in and not at the files of the functions that it calls, so an
edit of a helper would leave the callers' old machine code in use; and it files machine code under the path of the
sources, so that a second copy of them compiles everything again. Here the jitted functions of a package share one
directory whose name carries a hash of all kernel sources that the package compiles, and of the versions that compile
them. In it a function is found by its file's name, its name and its line, wherever the sources lie. Each file carries a
checksum, so that a damaged one is set aside and compiled anew (`windtunnel.kernel_cache.read_checked`). What it lacks
may have come with the installation, compiled for a baseline of processors (`windtunnel.kernel_cache.stored_directory`).

Importing this module imports Numba.
"""

# Numba has no static types.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import caching as _caching
from numba.core import event, types
from numba.core.caching import CacheImpl, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel.models import TupleModel
from numba.core.datamodel.packer import ArgPacker
from numba.core.datamodel.registry import default_manager
from numba.core.serialize import dumps
from numba.core.typed_passes import NativeLowering

from windtunnel.kernel_cache import (
    BASELINE,
    cache_directory,
    package_of,
    read_checked,
    read_stored,
    set_aside,
    stored_directory,
    write_checked,
)

_NUMBA: Any = _caching
"""The module in which Numba looks up what keeps machine code."""
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(signature: Any = None, *, allocates: bool = True) -> Callable[[Function], Function]:
    """A decorator for a jitted function that Python calls, or that allocates arrays.

    Args:
        signature: Numba types to compile for at import; None: compiled for the types of each first call.
        allocates: whether it allocates arrays; otherwise it counts no references, as `helper`.
    """

    def jitted(function: Function) -> Function:
        return _jitted(function, signature, nogil=True, _nrt=allocates)  # so that another thread can say how far it is

    return jitted


def helper(function: Function) -> Function:
    """A jitted function that only other jitted functions call and that allocates nothing.

    It counts no references to its arguments; counting takes atomic instructions, more than half of a kernel's run time.
    """
    return _part(function)


def pasted(function: Function) -> Function:
    """A helper that LLVM puts into its callers whatever its size: a phase of a loop, called from one place.

    It takes named tuples of many arrays for nothing, where passing an array takes seven words.
    """
    return _part(function, forceinline=True)


def expanded(function: Function) -> Function:
    """A helper whose source Numba puts into its callers: one that returns records by reference."""
    return _jitted(function, None, _nrt=False, inline="always")


def _part(function: Function, **options: Any) -> Function:
    package_of(Path(function.__code__.co_filename).resolve())
    options |= {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    jitted: Function = numba.njit(error_model="numpy", pipeline_class=_PartCompiler, **options)(function)
    return jitted


def _jitted(function: Function, signature: Any, **options: Any) -> Function:
    own = CacheImpl._locator_classes, _NUMBA.IndexDataCacheFile
    CacheImpl._locator_classes, _NUMBA.IndexDataCacheFile = [_Locator], _Files  # Numba reads them while it decorates
    try:
        jitted: Function = numba.njit(
            signature, cache=True, error_model="numpy", pipeline_class=_KernelCompiler, **options
        )(function)
    finally:
        CacheImpl._locator_classes, _NUMBA.IndexDataCacheFile = own
    return jitted


class _Part(JITCodeLibrary):
    """LLVM's code of a helper, as Numba lowers it: it is optimised once, with the kernel that it becomes part of."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Not yet."""

    def finalize(self) -> None:
        """Without what it calls, which `_Whole` links, and without machine code."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """None: Python does not call it."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> _Part:
        """Where Numba sets the function's environment."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nowhere: only functions that call Python read their environment."""


class _Whole(JITCodeLibrary):
    """LLVM's code of a kernel, with that of all helpers that it calls, and those that they call."""

    references = True
    """Whether it counts references; Numba optimises it a first time in order to remove pairs of them."""

    def add_linking_library(self, library: Any) -> None:
        """Link a function and those that it calls, each once."""
        if library not in self._linking_libraries:
            super().add_linking_library(library)
            if isinstance(library, _Part):
                for called in library._linking_libraries:
                    self.add_linking_library(called)

    def _optimize_functions(self, ll_module: Any) -> None:
        if self.references:
            super()._optimize_functions(ll_module)

    def _optimize_final_module(self) -> None:
        if self.references:
            super()._optimize_final_module()
        else:
            passes, builder = self._codegen._module_pass_manager()
            passes.run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPart(NativeLowering):
    """Numba's pass from typed code to LLVM's, for a helper."""

    _name = "lower_part"

    def run_pass(self, state: Any) -> bool:
        """Lower it."""
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerKernel(NativeLowering):
    """The same for a kernel."""

    _name = "lower_kernel"

    def run_pass(self, state: Any) -> bool:
        """Lower it and compile it to machine code."""
        state.library = _Whole(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.references = bool(state.flags.nrt)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


class _KernelCompiler(Compiler):
    """Numba's compiler, but for the last pass and for how functions take named tuples."""

    lowering: type[NativeLowering] = _LowerKernel

    def define_pipelines(self) -> list[Any]:
        """Numba's passes with ours for the last."""
        context = self.state.targetctx  # of this function alone
        context.get_arg_packer = partial(ArgPacker, _ARGUMENTS)
        pipelines: list[Any] = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [(self.lowering if p is NativeLowering else p, text) for p, text in pipeline.passes]
            pipeline.finalize()
        return pipelines


class _PartCompiler(_KernelCompiler):
    """The compiler of helpers."""

    lowering = _LowerPart


class _WholeTuple(TupleModel):
    """A named tuple that is one argument; Numba takes it apart into 7 for each array in it, in every call."""

    def get_argument_type(self) -> Any:
        """LLVM's type of it."""
        return self.get_value_type()

    def as_argument(self, builder: Any, value: Any) -> Any:
        """The value itself."""
        return value

    from_argument = as_argument


_ARGUMENTS = default_manager.copy()
_ARGUMENTS.register(types.NamedTuple, _WholeTuple)


class _Locator(_CacheLocator):
    """Where Numba keeps the machine code of one function: by the content of the sources, not by their place or age."""

    def __init__(self, function: Callable[..., Any], source: Path) -> None:
        self._py_file, self._line = str(source), function.__code__.co_firstlineno
        self._name = f"{source.parent.name}.{self._line}"
        self._directory = cache_directory(package_of(source))
        self._stamp = hashlib.sha256(source.read_bytes()).hexdigest()

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        """The locator of a function in a file."""
        return cls(py_func, Path(py_file).resolve())

    def ensure_cache_path(self) -> None:
        """Nothing: `write_checked` does without a directory that is not there."""

    def get_cache_path(self) -> str:
        """The directory of the machine code of the function's package."""
        return self._directory

    def get_source_stamp(self) -> str:
        """What Numba compares before it loads machine code."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """What tells the function from others of its name, in files of the same name."""
        return self._name


class _Files:
    """The machine code of one function: a file for each specialisation, named by a hash of what Numba looks it up by.

    Numba's own class keeps an index in a second file, which two processes can write over each other, and loads whatever
    it finds.
    """

    def __init__(self, cache_path: str, filename_base: str, source_stamp: str) -> None:
        self._folder, self._name, self._stamp = Path(cache_path), filename_base, source_stamp

    def _path(self, folder: Path, key: Any) -> Path:
        return folder / f"{self._name}.{hashlib.sha256(repr((self._stamp, key)).encode()).hexdigest()[:16]}.nbc"

    def flush(self) -> None:
        """Forget all specialisations."""
        for path in self._folder.glob(f"{self._name}.*.nbc"):
            with contextlib.suppress(OSError):
                path.unlink()

    def save(self, key: Any, data: Any) -> None:
        """Keep what was compiled, where that can be written."""
        write_checked(self._path(self._folder, key), dumps((self._stamp, key, data)))

    def load(self, key: Any) -> Any:
        """What was compiled before, here or for the baseline; None: nothing, or files that cannot be used."""
        found = self._unpacked(self._path(self._folder, key), key, read_checked)
        stored = stored_directory(self._folder) if found is None else None
        if stored is None:
            return found
        signature, (triple, *_), code = key
        key = signature, (triple, *BASELINE), code
        return self._unpacked(self._path(stored, key), key, read_stored)

    def _unpacked(self, path: Path, key: Any, read: Callable[[Path], bytes | None]) -> Any:
        content = read(path)
        if content is None:
            return None
        try:
            stamp, kept, data = pickle.loads(content)
        except Exception as error:  # whole, and yet of another Python or Numba: a pickle fails in any way
            set_aside(path, f"{type(error).__name__}: {error}")
            return None
        return data if (stamp, kept) == (self._stamp, key) else None


def plain(function: Function) -> Function:
    """The Python function that was jitted."""
    found: Function = getattr(function, "py_func", function)
    return found


_compiling: Any = event.TimingListener()
event.register("numba:compile", _compiling)


def compile_seconds() -> float:
    """Seconds that this process has spent on compiling, none for what the cache had."""
    return float(_compiling.duration) if _compiling.done else 0.0


def compiling() -> bool:
    """Whether a function is being compiled at this moment."""
    return bool(_compiling._depth)
