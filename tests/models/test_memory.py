"""What does not fit into memory is told with what needs less."""

from __future__ import annotations

import pytest
import torch

from models.errors import OutOfMemoryError
from models.memory import memory_bounded


def test_a_tensor_that_does_not_fit_is_told_with_its_size() -> None:
    needed = 4 * 2**48
    told = rf"tried to allocate {needed} bytes\): a smaller model"
    with pytest.raises(OutOfMemoryError, match=told), memory_bounded():
        torch.empty(2**48)


def test_a_full_card_and_a_full_interpreter_are_told_too() -> None:
    for error in (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB."), MemoryError()):
        with pytest.raises(OutOfMemoryError, match="not enough memory"), memory_bounded():
            raise error


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="shapes"), memory_bounded():
        raise RuntimeError("shapes do not match")
