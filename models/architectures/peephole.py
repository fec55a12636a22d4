"""The LSTM layer whose gates see the cell (Liu et al., EMNLP 2015, equations 2-7 and 10).

    i_t = σ(W_i x_t + U_i h_{t-1} + V_i c_{t-1} + b_i)                        (2)
    f_t = σ(W_f x_t + U_f h_{t-1} + V_f c_{t-1} + b_f)                        (3)
    o_t = σ(W_o x_t + U_o h_{t-1} + V_o c_t + b_o)                            (4)
    g_t = tanh(W_g x_t + U_g h_{t-1} + b_g)                                   (5)
    c_t = f_t ⊙ c_{t-1} + i_t ⊙ g_t,   h_t = o_t ⊙ tanh(c_t)             (6), (7)

The V are matrices as printed, or vectors, the peepholes of Graves (2013). Equation 10 of the same paper lets the output
gate see c_{t-1} in place of c_t.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

OutputGateCell = Literal["new", "previous"]


class PeepholeLSTM(nn.Module):
    """A layer of such units.

    Args:
        input_size: features of a word.
        hidden: its units.
        full: V as matrices, else as vectors.
        output_gate_cell: what the output gate sees, c_t (new) or c_{t-1} (previous).
    """

    def __init__(self, input_size: int, hidden: int, full: bool, output_gate_cell: OutputGateCell) -> None:
        super().__init__()
        self.hidden_size = hidden
        self.inputs = nn.Linear(input_size, 4 * hidden)  # gates packed i, f, g, o
        self.recurrent = nn.Linear(hidden, 4 * hidden, bias=False)
        shape = (3, hidden, hidden) if full else (3, hidden)
        self.cell_to_gate = nn.Parameter(torch.zeros(shape))  # V_i, V_f, V_o
        self.output_gate_cell = output_gate_cell

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Words `(batch, time, input)` -> h and c after each, `(batch, time, hidden)`."""
        h = c = x.new_zeros(len(x), self.hidden_size)
        hs, cs = [], []
        for projected in self.inputs(x).unbind(1):
            h, c = self._step(projected, h, c)
            hs.append(h)
            cs.append(c)
        return torch.stack(hs, dim=1), torch.stack(cs, dim=1)

    def _step(self, projected: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = (projected + self.recurrent(h)).chunk(4, dim=-1)
        v_i, v_f, v_o = self.cell_to_gate.unbind()
        c_new = torch.sigmoid(f + _seen(v_f, c)) * c + torch.sigmoid(i + _seen(v_i, c)) * torch.tanh(g)
        o = torch.sigmoid(o + _seen(v_o, c_new if self.output_gate_cell == "new" else c))
        return o * torch.tanh(c_new), c_new


def _seen(v: Tensor, c: Tensor) -> Tensor:
    return c @ v.T if v.ndim == 2 else c * v
