"""Too little memory, told as something that its user can mend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from models.errors import OutOfMemoryError

_CPU_REFUSAL = "can't allocate memory"  # torch has no type of its own for the CPU


@contextmanager
def memory_bounded() -> Iterator[None]:
    """Around work whose memory depends on the configuration and the data.

    Raises:
        OutOfMemoryError: the processor or the card has not enough of it.
    """
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise OutOfMemoryError(_reason(error)) from error
    except RuntimeError as error:
        if _CPU_REFUSAL not in str(error):
            raise
        raise OutOfMemoryError(_reason(error)) from error


def _reason(error: BaseException) -> str:
    first = str(error).partition("\n")[0]
    return first[max(0, first.find(_CPU_REFUSAL)) :].partition(". ")[0]
