"""Word vectors beside vectors of the words' characters (Ma et al., EMNLP 2020, section 4).

With a vector e of 50 numbers for each symbol, the filters F of three symbols, and zero vectors before the word:

    found(i) = ReLU(Σ_j F_j e_{i-3+j} + b), j = 1, 2, 3          features = max_i found(i)

over the word's symbols i. The paper names a convolution and a max-pooling layer of 50 dimensions; the other sizes and
the ReLU are those of its authors' code, which pools over padding too and we do not.

The features depend on the word alone. So a trained model holds them in its table of word vectors (`fold`), and whatever
evaluates, exports or serves it knows nothing of characters.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.architectures.base import Architecture, init_uniform
from models.text.spelling import PADDING_SYMBOL, SYMBOLS
from models.text.tokenizer import PADDING_ID

_SYMBOL_SIZE = 50
_WIDTH = 3
_WORDS_AT_ONCE = 4096  # when all are folded; bounds memory


class CharacterCNN(nn.Module):
    """Features of words from their symbols."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, _SYMBOL_SIZE)  # that of padding is never read
        self.filters = nn.Conv1d(_SYMBOL_SIZE, filters, _WIDTH)

    def forward(self, spellings: Tensor) -> Tensor:
        """Symbols `(words, longest)`, right-padded with 0 -> features `(words, filters)`; no symbol gives zeros."""
        symbols = self.symbols(spellings.long()).transpose(1, 2)  # (words, symbol size, longest)
        found = functional.relu(self.filters(functional.pad(symbols, (_WIDTH - 1, 0))))
        real = (spellings != PADDING_SYMBOL).unsqueeze(1)
        return (found * real).amax(dim=-1)  # a ReLU is never below the zeros at padding


class SpelledEmbedding(nn.Embedding):
    """Word vectors, which alone are `weight`, each with the features of its spelling behind it.

    Args:
        vectors: `(vocabulary, embedding)`, the initial word vectors.
        spellings: uint8 `(vocabulary, longest)`, see `models.text.spelling`.
        filters: features of a spelling.
    """

    spellings: Tensor

    def __init__(self, vectors: Tensor, spellings: Tensor, filters: int) -> None:
        super().__init__(vectors.shape[0], vectors.shape[1], PADDING_ID, _weight=vectors.clone())
        self.embedding_dim += filters
        self.characters = CharacterCNN(filters)
        self.register_buffer("spellings", spellings, persistent=False)  # the tokenizer has them

    def forward(self, token_ids: Tensor) -> Tensor:
        """int64 `(…)` -> `(…, embedding + filters)`."""
        distinct, places = torch.unique(token_ids, return_inverse=True)
        spellings = self.spellings[distinct]
        longest = max(1, int((spellings != PADDING_SYMBOL).sum(dim=1).max()))
        features = self.characters(spellings[:, :longest])  # (distinct, filters)
        return torch.cat([super().forward(token_ids), features[places]], dim=-1)

    @torch.no_grad()
    def folded(self) -> nn.Embedding:
        """The same vectors as a plain table."""
        ids = torch.arange(self.num_embeddings, device=self.weight.device)
        table = torch.cat([self(part) for part in torch.split(ids, _WORDS_AT_ONCE)])
        return nn.Embedding(table.shape[0], table.shape[1], PADDING_ID, _weight=table)


def add_characters(model: Architecture, spellings: Tensor, filters: int, init_range: float) -> None:
    """Let a model built for `embedding + filters` numbers per word learn the last ones from the words' spellings."""
    wide = model.embedding.weight
    model.embedding = SpelledEmbedding(wide.detach()[:, :-filters], spellings, filters)
    model.embedding.weight.requires_grad_(wide.requires_grad)
    init_uniform(model.embedding.characters, init_range)


def fold(model: Architecture) -> None:
    """Put the features of the spellings into the table of word vectors for good."""
    if isinstance(model.embedding, SpelledEmbedding):
        model.embedding = model.embedding.folded()
