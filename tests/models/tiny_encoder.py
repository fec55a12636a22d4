"""Folders of tiny pretrained encoders, made here with random weights, in Hugging Face's form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedModel,
)

Kind = Literal["bert", "albert", "distilbert", "modernbert"]

POSITIONS = 24
SIZE = 16
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
_PIECES = ["good", "bad", "word", "film", "a", *(f"##{number}" for number in range(20)), "##s", ".", "!"]


def tokenizer() -> Tokenizer:
    """Word pieces between [CLS] and [SEP]; as it is shipped with many models, it pads and cuts."""
    vocabulary = {piece: index for index, piece in enumerate([*_SPECIAL, *_PIECES])}
    found = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    found.normalizer = normalizers.BertNormalizer(lowercase=True)
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    found.enable_truncation(8)
    found.enable_padding(length=8)
    return found


def write_encoder(folder: Path, kind: Kind = "bert", dtype: torch.dtype = torch.float32) -> Path:
    """Write the folder and return it."""
    torch.manual_seed(3)
    model = _model(kind)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    model.config.dtype = dtype
    model.save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def _model(kind: Kind) -> PreTrainedModel:
    words = len(_SPECIAL) + len(_PIECES)
    if kind == "distilbert":
        return DistilBertModel(
            DistilBertConfig(
                vocab_size=words,
                dim=SIZE,
                n_layers=2,
                n_heads=2,
                hidden_dim=24,
                max_position_embeddings=POSITIONS,
                initializer_range=0.3,
            )
        )
    sizes: dict[str, Any] = {
        "vocab_size": words,
        "hidden_size": SIZE,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": POSITIONS,
        "initializer_range": 0.3,
    }
    if kind == "bert":
        return BertModel(BertConfig(**sizes))
    if kind == "albert":
        return AlbertModel(AlbertConfig(embedding_size=8, **sizes))
    sizes |= {f"{name}_token_id": 0 for name in ("pad", "bos", "eos", "cls", "sep")}
    return ModernBertModel(ModernBertConfig(**sizes))


def change_config(folder: Path, **changes: object) -> None:
    """Change entries of the folder's config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")
