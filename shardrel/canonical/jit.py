"""Functions made for this machine out of LLVM's text, where it lets programs make code."""

import ctypes
import mmap
from collections.abc import Callable, Mapping
from typing import Any


def engine(text: Callable[[Mapping[str, bool]], str | None]) -> Any:
    """Code of the functions in a text. ``None`` where it cannot be had.

    Args:
        text: Gets the names of what the processor can do; None where that is not enough.
    """
    if not _may_make_code():
        return None
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError):
        return None
    return _engine(llvm, text)


def function(made: Any, name: str, kinds: str) -> Callable[..., None]:
    """A function of an engine, which keeps its code; ``p`` is an address, ``#`` a number. Other threads run meanwhile."""
    types = [ctypes.c_void_p if kind == "p" else ctypes.c_int64 for kind in kinds]
    return ctypes.CFUNCTYPE(None, *types)(made.get_function_address(name))


def _may_make_code() -> bool:
    """Hardened hosts refuse memory that can be run, and LLVM would end the process."""
    kinds = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    try:
        mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, kinds).close()
    except OSError:
        return False
    return True


def _engine(llvm: Any, text: Callable[[Mapping[str, bool]], str | None]) -> Any:
    try:
        features = llvm.get_host_cpu_features()
        if (written := text(features)) is None:
            return None
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(written)
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=3
        )
        made = llvm.create_mcjit_compiler(module, machine)
        made.finalize_object()
    except (RuntimeError, AttributeError, TypeError, ValueError, OSError):
        # Another version than those that we know: one of before 2022, which other packages may have pinned, has other
        # words. Whoever wants a hash is not to suffer from it.
        return None
    return made
