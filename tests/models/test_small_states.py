"""The hand-written gradient of MODE-LSTM's layer, judged by autograd through the plain cell and by differences."""

from __future__ import annotations

import pytest
import torch

from models.architectures import small_states
from models.architectures.base import init_uniform
from models.architectures.small_states import SmallStates


def layer(words: int, states: int = 2, size: int = 3, embedding: int = 4) -> SmallStates:
    torch.manual_seed(words)
    found = SmallStates(embedding, states, size, words).double()
    init_uniform(found, 0.8)
    return found


@pytest.mark.parametrize("words", [1, 2, 5])
def test_gradient_is_that_of_differences(words: int) -> None:
    states = layer(words)
    x = torch.randn(3, words + 3, 4, dtype=torch.float64, requires_grad=True)

    def read(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        names = [name for name, _ in states.named_parameters()]
        found: torch.Tensor = torch.func.functional_call(states, dict(zip(names, weights, strict=True)), (x,))
        return found

    assert torch.autograd.gradcheck(read, (x, *states.parameters()))


def test_reading_a_few_documents_at_a_time_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    states, x = layer(4), torch.randn(7, 9, 4, dtype=torch.float64)
    together = states(x)
    monkeypatch.setattr(small_states, "_WINDOWS_AT_ONCE", 13)  # two documents of six windows
    torch.testing.assert_close(states(x), together, rtol=0, atol=1e-15)


def test_without_a_gradient_the_same_is_read() -> None:
    states, x = layer(4), torch.randn(2, 9, 4, dtype=torch.float64)
    with torch.inference_mode():
        read = states(x)
    assert torch.equal(read, states(x).detach())


def test_frozen_words_get_no_gradient_and_the_weights_theirs() -> None:
    states, x = layer(3), torch.randn(2, 6, 4, dtype=torch.float64)
    states(x).sum().backward()
    assert x.grad is None
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in states.parameters())
