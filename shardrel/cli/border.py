"""Where errors become exit statuses: no traceback for anything that a user can cause."""

import errno
import os
import sys
import traceback
from collections.abc import Callable

import typer

from shardrel.cli.output import open_streams, write_error
from shardrel.errors import ErrorCode, InvalidInputError, ShardrelError, StoppedError, UnavailableError

# Typer keeps its error classes private and moves them around; this is the base of the ones about the call.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
_WRONG_NAMES = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR}


def guarded(action: Callable[[], int], *, as_json: bool) -> int:
    """Run the command line and turn whatever it raises into an exit status.

    Effects: an error is written to stdout as JSON, or to stderr for people.
    """
    open_streams(as_json=as_json)
    try:
        return action()
    except ShardrelError as err:
        return _refused(err, as_json=as_json)
    except _UsageError as err:
        return _usage(err, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        stopped = StoppedError(ErrorCode.CALL_INTERRUPTED, "interrupted; the same command goes on where it stopped")
        return _refused(stopped, as_json=as_json)
    except OSError as err:
        return _refused(_of_the_machine(err), as_json=as_json)
    except MemoryError:
        write_error(ErrorCode.STORE_UNAVAILABLE.value, "this machine has not enough memory", {}, as_json=as_json)
        _trace_if_asked()
        return UnavailableError.exit_status
    except Exception as err:  # noqa: BLE001 (the border: what nobody foresaw is a bug of ours, said without a traceback)
        hint = "a bug of ours; set SHARDREL_DEBUG=1 for the traceback"
        write_error(ErrorCode.INTERNAL.value, hint, {"type": type(err).__name__}, as_json=as_json)
        _trace_if_asked()
        return 70


def _of_the_machine(err: OSError) -> ShardrelError:
    """A name that can be no file's is wrong; a full disk, or a folder without rights, may do later."""
    reason = os.strerror(err.errno) if err.errno else type(err).__name__
    context = {"file": str(err.filename)} if err.filename else {}
    if err.errno in _WRONG_NAMES:
        return InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"no such file: {reason}", **context)
    return UnavailableError(ErrorCode.STORE_UNAVAILABLE, f"this machine refuses: {reason}", **context)


def _refused(err: ShardrelError, *, as_json: bool) -> int:
    write_error(err.code.value, err.message, err.context, as_json=as_json)
    _trace_if_asked()
    return err.exit_status


def _usage(err: Exception, *, as_json: bool) -> int:
    # Typer's own sentence names the option and never the content of a file.
    message = str(getattr(err, "format_message", err.__str__)()) or "see --help"
    write_error(ErrorCode.INPUT_INVALID.value, message, {}, as_json=as_json)
    return 2


def _trace_if_asked() -> None:
    if os.environ.get("SHARDREL_DEBUG"):
        traceback.print_exc(file=sys.stderr)
