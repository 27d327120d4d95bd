from typing import Any as Buffer

def find_leaves(
    descriptor: int, page_bytes: int, usable_bytes: int, pages: int, root: int, counted: bool, /
) -> tuple[int, bytes, bytes]: ...
def decode(
    descriptor: int,
    page_bytes: int,
    usable_bytes: int,
    pages: int,
    leaf_pages: Buffer,
    leaf_rows: Buffer,
    columns: Buffer,
    alias: int,
    out: tuple[Buffer, ...],
    /,
) -> tuple[int, bytes, bytes, int]: ...
def decode_texts(
    descriptor: int,
    page_bytes: int,
    usable_bytes: int,
    pages: int,
    leaf_pages: Buffer,
    leaf_rows: Buffer,
    column: int,
    lengths: Buffer,
    /,
) -> tuple[int, bytes, int]: ...
