"""The C library's memory of a training process."""

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of malloc.h


def keep_freed_memory() -> None:
    """Lets glibc's allocator keep the memory of freed tensors for the next update.

    By default it returns blocks above 32 MiB to the system and maps them anew, page by page, in every update. The
    process then holds its peak memory to its end. Nothing is changed where a variable ``MALLOC_...`` of the environment
    chooses otherwise, and with another C library.
    """
    allocator = ctypes.CDLL(None)
    if hasattr(allocator, "mallopt") and not any(name.startswith("MALLOC_") for name in os.environ):
        allocator.mallopt(_MMAP_MAX, 0)
        allocator.mallopt(_TRIM_THRESHOLD, -1)
