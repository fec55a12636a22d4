"""Small independent LSTMs over sliding windows, the layer of MODE-LSTM (Ma et al., EMNLP 2020, equations 4-6).

The words are projected once; then the S steps of a window run over shifted slices, all windows side by side. Arrays
are unit by window, so that a gate is one block of memory; words come before documents, so that the slice of a step is
one block too; and a few documents are read at a time, so that a step stays in the processor's cache. The gradient is
written by hand, since autograd keeps and copies more (benchmarks/training has what that saves).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_WINDOWS_AT_ONCE = 512  # about; more leave the cache, fewer spend their time on calls


class SmallStates(nn.Module):
    """K independent LSTMs of p units over windows of S words; gates packed f, i, o, g."""

    def __init__(self, input_size: int, states: int, state_size: int, words: int) -> None:
        super().__init__()
        self.words = words
        self.project = nn.Linear(input_size, states * 4 * state_size)  # U and b, state by state
        self.recurrent = nn.Parameter(torch.empty(states, 4 * state_size, state_size))  # W

    def forward(self, x: Tensor) -> Tensor:
        """`(batch, words - 1 + time, embedding)` -> the last states `(batch, time, K p)`, state by state."""
        time = x.shape[1] - self.words + 1
        at_once = max(1, _WINDOWS_AT_ONCE // time)
        return torch.cat([self._read(part) for part in torch.split(x, at_once)])

    def _read(self, x: Tensor) -> Tensor:
        states, gates, _ = self.recurrent.shape
        batch, words, _ = x.shape
        by_word = x.transpose(0, 1).flatten(0, 1)  # (words batch, embedding)
        projected = torch.addmm(self.project.bias.unsqueeze(1), self.project.weight, by_word.T)
        last: Tensor = _Windows.apply(  # type: ignore[no-untyped-call]
            projected.view(states, gates, words, batch), self.recurrent, self.words
        )  # (K, p, time, batch)
        return last.permute(3, 2, 0, 1).flatten(2)


class _Windows(torch.autograd.Function):
    """From projected words `(K, 4 p, S - 1 + time, batch)` to h^1_S … h^K_S, `(K, p, time, batch)`."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, recurrent: Tensor, words: int) -> Tensor:
        states, _, size = recurrent.shape
        time, batch = projected.shape[2] - words + 1, projected.shape[3]
        kept = words if any(ctx.needs_input_grad) else 1  # steps to go back through
        gates = projected.new_empty(kept, states, 4 * size, time, batch)
        c, tanh_c, h = projected.new_empty(3, kept, states, size, time, batch)
        for step in range(words):
            now, before = step % kept, (step - 1) % kept
            z, x = gates[now], projected[:, :, step : step + time]
            if step:
                torch.baddbmm(x.flatten(2), recurrent, h[before].flatten(2), out=z.flatten(2))
            else:
                z.copy_(x)
            z[:, : 3 * size].sigmoid_()
            z[:, 3 * size :].tanh_()
            f, i, o, g = torch.split(z, size, dim=1)
            if step:
                torch.mul(c[before], f, out=c[now]).addcmul_(i, g)
            else:
                torch.mul(i, g, out=c[now])
            torch.tanh(c[now], out=tanh_c[now])
            torch.mul(o, tanh_c[now], out=h[now])
        if kept == words:
            ctx.save_for_backward(recurrent, gates, c, tanh_c, h)
        last: Tensor = h[-1].clone()
        return last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor) -> tuple[Tensor, Tensor, None]:
        recurrent, gates, c, tanh_c, h = ctx.saved_tensors
        words, states, _, time, batch = gates.shape
        size = recurrent.shape[2]
        d_projected = dh.new_zeros(states, 4 * size, words - 1 + time, batch)
        d_recurrent = torch.zeros_like(recurrent)
        dz = torch.empty_like(gates[0])
        dc = torch.zeros_like(c[0])
        for step in reversed(range(words)):
            f, i, o, g = torch.split(gates[step], size, dim=1)
            df, di, do, dg = torch.split(dz, size, dim=1)
            dc += torch.ops.aten.tanh_backward(dh * o, tanh_c[step])
            torch.mul(dh, tanh_c[step], out=do)
            torch.mul(dc, g, out=di)
            torch.mul(dc, i, out=dg)
            if step:
                torch.mul(dc, c[step - 1], out=df)
            else:
                df.zero_()
            sigmoids, d_sigmoids = gates[step][:, : 3 * size], dz[:, : 3 * size]
            torch.ops.aten.sigmoid_backward.grad_input(d_sigmoids, sigmoids, grad_input=d_sigmoids)
            torch.ops.aten.tanh_backward.grad_input(dg, g, grad_input=dg)
            d_projected[:, :, step : step + time] += dz
            if step:
                d_recurrent.baddbmm_(dz.flatten(2), h[step - 1].flatten(2).transpose(1, 2))
                dh = (recurrent.transpose(1, 2) @ dz.flatten(2)).view_as(dh)
                dc *= f
        return d_projected, d_recurrent, None
