"""Words are spelled as told, the fast CNN is the plain one, and a trained model's table is what it was trained with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors.torch import load_file

from models.architectures.characters import CharacterCNN, SpelledEmbedding, fold
from models.architectures.mode import MODELSTMConfig
from models.architectures.registry import build, require_source
from models.errors import ConfigError
from models.plain import characters
from models.preparation import prepare
from models.text.spelling import LONGEST_WORD, OTHER_SYMBOL, SYMBOLS, spell
from models.text.tokenizer import PADDING, UNKNOWN, vocabulary
from models.training.run_folder import WEIGHTS
from tests.models.networks import random_batch, random_network
from tests.models.plain_weights import character_weights
from tests.models.tiny_run import tiny_config, tiny_run, write_documents

WORDS = [PADDING, UNKNOWN, "a", "Good", "n't", "well-being", "3.14", "é!", "x" * 50]


def network(**options: object) -> tuple[torch.nn.Module, SpelledEmbedding]:
    config = MODELSTMConfig.model_validate({"scales": (2,), "characters": 50, **options})
    model = build(config, torch.randn(len(WORDS), 6).index_fill(0, torch.tensor(0), 0), 2, WORDS)
    assert isinstance(model.embedding, SpelledEmbedding)
    return model, model.embedding


def test_parameters_of_the_character_cnn() -> None:
    """The MODE-LSTM paper's 50 features over a table of 42 symbols."""
    assert SYMBOLS == 42
    assert sum(parameter.numel() for parameter in CharacterCNN(50).parameters()) == 9_650


def test_words_are_spelled_in_lower_case_and_cut() -> None:
    spellings = spell(WORDS)
    assert spellings.shape == (len(WORDS), LONGEST_WORD)
    assert spellings.max() < SYMBOLS
    assert not spellings[0].any()
    assert np.trim_zeros(spellings[1]).tolist() == [OTHER_SYMBOL]
    lengths = (spellings != 0).sum(axis=1).tolist()
    assert lengths == [0, 1, 1, 4, 3, 10, 4, 2, LONGEST_WORD]
    assert (spell([PADDING, UNKNOWN, "GOOD"])[2] == spellings[3]).all()
    assert spellings[7, :2].tolist() == [OTHER_SYMBOL, OTHER_SYMBOL]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=45), min_size=1, max_size=5), st.integers(0, 1000))
@torch.inference_mode()
def test_fast_equals_plain_whatever_stands_beside_the_word(words: list[str], seed: int) -> None:
    torch.manual_seed(seed)
    cnn = CharacterCNN(7).double()
    spellings = spell([PADDING, UNKNOWN, *words])
    found = cnn(torch.from_numpy(spellings))
    assert not found[0].any()
    for row, spelling in zip(found[1:], spellings[1:], strict=True):
        expected = characters.features(character_weights(cnn), np.trim_zeros(spelling, "b").tolist())
        torch.testing.assert_close(row, expected, rtol=0, atol=1e-12)


@torch.inference_mode()
def test_folded_table_gives_the_same_answers() -> None:
    model, embedding = network()
    ids, lengths = torch.tensor([[2, 8, 1, 4], [3, 5, 0, 0]]), torch.tensor([4, 2])
    model.eval()
    expected, vectors = model(ids, lengths).logits, embedding(ids)
    assert vectors.shape == (2, 4, 56)
    assert not vectors[1, 2:].any()
    fold(model)  # type: ignore[arg-type]
    assert type(model.embedding) is torch.nn.Embedding
    torch.testing.assert_close(model.embedding(ids), vectors)
    torch.testing.assert_close(model(ids, lengths).logits, expected)


@pytest.mark.parametrize("tune", [True, False])
def test_characters_learn_whether_or_not_the_word_vectors_do(tune: bool) -> None:
    model, embedding = network(tune_embedding=tune)
    answer = model(torch.tensor([[2, 3, 4, 5]]), torch.tensor([4]))
    answer.logits.sum().backward()
    assert (embedding.weight.grad is not None) == tune
    for parameter in embedding.characters.parameters():
        assert parameter.grad is not None
        assert parameter.grad.any()


def test_characters_without_words_are_refused() -> None:
    with pytest.raises(ConfigError, match="characters expect 50 words to spell, found 0"):
        random_network(MODELSTMConfig(characters=5))


def test_characters_beside_an_encoder_are_refused() -> None:
    with pytest.raises(ConfigError, match="characters go beside word vectors; on an encoder expected 0"):
        require_source(MODELSTMConfig(characters=5), encoder=True)


def test_run_reads_its_characters_from_the_table(tmp_path: Path) -> None:
    """The weights that are kept are those of the CNN; the network that is evaluated and exported has a table."""
    data = write_documents(tmp_path / "train.csv")
    options = ("model.characters=5", "model.embedding_storage=float32", "training.epochs=1")
    run = tiny_run(data, tmp_path / "run", "mode", *options)
    kept = load_file(run.path / WEIGHTS)
    assert kept["embedding.weight"].shape[1] == 8
    assert "embedding.spellings" not in kept
    model = run.model()
    assert model.embedding.weight.shape == (len(vocabulary(run.tokenizer())), 8 + 5)
    prepared = prepare(tiny_config(data, "mode", *options), Path(), None, Console(quiet=True))
    trained = build(prepared.record.config.model, prepared.words, 2, vocabulary(prepared.tokenizer))
    trained.load_state_dict(kept)
    trained.eval()
    ids, lengths = random_batch([9, 4])
    ids = 1 + ids % 20  # words of that vocabulary
    with torch.inference_mode():
        torch.testing.assert_close(model(ids, lengths).logits, trained(ids, lengths).logits)
