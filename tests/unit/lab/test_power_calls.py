"""Lines of strace become operations on files, or are refused."""

import pytest

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.lab.power.operations import (
    Create,
    Link,
    MakeFolder,
    Mark,
    Operation,
    Rename,
    Resize,
    Sync,
    Unlink,
    Write,
    below,
)
from shardrel.lab.power.reading import read_operations

HOME, MARKS = "/h", "/m"


def hexed(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def quoted(text: str) -> str:
    return f'"{hexed(text)}"'


def held(number: int | str, path: str) -> str:
    return f"{number}<{hexed(path)}>"


def read(*lines: str) -> list[Operation]:
    return read_operations([f"7 {line}" if not line[0].isdigit() else line for line in lines], HOME, MARKS)


def refused(*lines: str) -> ErrorCode:
    with pytest.raises(InvalidInputError) as caught:
        read(*lines)
    return caught.value.code


CWD = held("AT_FDCWD", "/h")
NEW = f"openat({CWD}, {quoted('f')}, O_WRONLY|O_CREAT|O_EXCL, 0600) = {held(3, '/h/f')}"


def test_each_call_is_an_operation_on_a_path_below_the_folder() -> None:
    assert read(
        f"mkdir({quoted('/h/d')}, 0700) = 0",
        f"mkdirat({held(4, '/h/d')}, {quoted('e')}, 0700) = 0",
        NEW,
        f"write({held(3, '/h/f')}, {quoted('ab')}, 2) = 2",
        f"write({held(3, '/h/f')}, {quoted('cd')}, 2) = 1",
        f"pwrite64({held(3, '/h/f')}, {quoted('z')}, 1, 9) = 1",
        f"lseek({held(3, '/h/f')}, 0, SEEK_SET) = 0",
        f"write({held(3, '/h/f')}, {quoted('A')}, 1) = 1",
        f"ftruncate({held(3, '/h/f')}, 4) = 0",
        f"fdatasync({held(3, '/h/f')}) = 0",
        f"fsync({held(5, '/h')}) = 0",
        f"linkat({CWD}, {quoted('f')}, {held(4, '/h/d')}, {quoted('g')}, 0) = 0",
        f"renameat2({CWD}, {quoted('f')}, {CWD}, {quoted('/h/k')}, 0) = 0",
        f"unlinkat({held(4, '/h/d')}, {quoted('g')}, 0) = 0",
        f"rmdir({quoted('/h/d/e')}) = 0",
        f"write({held(9, '/m')}, {quoted('said')}, 4) = 4",
    ) == [
        MakeFolder("d"),
        MakeFolder("d/e"),
        Create("f"),
        Write("f", 0, b"ab"),
        Write("f", 2, b"c"),
        Write("f", 9, b"z"),
        Write("f", 0, b"A"),
        Resize("f", 4),
        Sync("f"),
        Sync(""),
        Link("f", "d/g"),
        Rename("f", "k"),
        Unlink("d/g"),
        Unlink("d/e"),
        Mark("said"),
    ]


def test_what_failed_or_lies_elsewhere_is_nothing() -> None:
    elsewhere = held(3, "/hother/f")
    assert (
        read(
            f"mkdir({quoted('/h/d')}, 0700) = -1 EEXIST (File exists)",
            f"write({elsewhere}, {quoted('x')}, 1) = 1",
            f"fsync({elsewhere}) = 0",
            f"mkdir({quoted('relative')}, 0700) = 0",
            f"openat({held('AT_FDCWD', '/')}, {quoted('etc')}, O_RDONLY) = {held(3, '/etc')}",
            f"fsync({held(3, '/h/f')}(deleted)) = 0",
            "exit_group(0) = ?",
            "+++ exited with 0 +++",
            "--- SIGCHLD {si_signo=SIGCHLD} ---",
        )
        == []
    )


def test_a_sync_vouches_for_nothing_that_happened_while_it_ran() -> None:
    """Another thread's file appears while a folder is made durable; what came before is covered."""
    other = f"openat({CWD}, {quoted('g')}, O_WRONLY|O_CREAT, 0600"
    assert read(
        NEW,
        f"fsync({held(4, '/h')} <unfinished ...>",
        f"8 {other}) = {held(5, '/h/g')}",
        f"8 write({held(5, '/h/g')}, {quoted('x')}, 1) = 1",
        "<... fsync resumed>) = 0",
        f"fsync({held(4, '/h')}) = 0",
    ) == [Create("f"), Create("g"), Write("g", 0, b"x"), Sync("", overlap=(2, 1)), Sync("")]


def test_a_name_is_there_before_its_maker_is_told() -> None:
    assert read(
        f"mkdirat({CWD}, {quoted('d')}, 0700 <unfinished ...>",
        f"8 openat({held(5, '/h/d')}, {quoted('g')}, O_WRONLY|O_CREAT, 0600) = {held(6, '/h/d/g')}",
        "<... mkdirat resumed>) = 0",
    ) == [MakeFolder("d"), Create("d/g")]


@pytest.mark.parametrize(
    "line",
    [
        f"writev({held(3, '/h/f')}, [{{iov_base=0, iov_len=1}}], 1) = 1",
        f"symlink({quoted('/x')}, {quoted('/h/l')}) = 0",
        f"copy_file_range({held(3, '/x')}, NULL, {held(4, '/h/f')}, NULL, 1, 0) = 1",
        "io_uring_setup(8, {flags=0}) = 5",
        f"openat({CWD}, {quoted('')}, O_RDWR|O_TMPFILE, 0600) = {held(3, '/h/#1')}",
        f"mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, {held(3, '/h/f')}, 0) = 0x7f0000000000",
        f"renameat2({CWD}, {quoted('f')}, {CWD}, {quoted('g')}, RENAME_EXCHANGE) = 0",
        f"rename({quoted('/h/f')}, {quoted('/elsewhere')}) = 0",
        f"write({held(3, '/h/f')}, {quoted('x')}, 1) = 1",
        f"write({held(3, '/h/f')}, {quoted('x')}..., 1000) = 1000",
        f"openat({held(3, 'pipe')}...",
        "no process at all",
    ],
)
def test_what_is_not_understood_is_refused(line: str) -> None:
    assert refused(line) == ErrorCode.INPUT_CORRUPT


def test_a_descriptor_that_was_read_from_too_is_not_guessed_at() -> None:
    opened = NEW.replace("O_WRONLY", "O_RDWR")
    assert refused(opened, f"write({held(3, '/h/f')}, {quoted('x')}, 1) = 1") == ErrorCode.INPUT_CORRUPT


def test_operations_are_seen_from_a_folder_or_not_at_all() -> None:
    assert below(Write("1/f", 0, b"x"), "1") == Write("f", 0, b"x")
    assert below(Sync("1"), "1") == Sync("")
    assert below(Rename("1/f", "1/g"), "1") == Rename("f", "g")
    assert below(Mark("said"), "1") == Mark("said")
    assert below(Sync("10"), "1") is None
    assert below(Link("1/f", "2/f"), "1") is None
