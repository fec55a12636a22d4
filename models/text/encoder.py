"""A pretrained transformer encoder as the source of word features, in place of a table of word vectors.

Any folder in Hugging Face's form: `config.json`, `tokenizer.json` and `model.safetensors` of an encoder that
`transformers.AutoModel` knows and that has a table of positions, as BERT, ALBERT, ELECTRA, DistilBERT, RoBERTa and
MPNet have (ModernBERT turns its features by position). The features are those of its last layer. Nothing is ever
downloaded.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from hashlib import file_digest
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from models.errors import ConfigError, EncoderError

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
_PACKAGE = "package:"
# of features of a frozen encoder; 3,000 documents of 512 tokens and 768 features are 4.7 GB
_KEPT_BYTES = 4 * 2**30


class PretrainedEncoder(nn.Module):
    """Features of every token in the light of the whole document.

    Args:
        model: the transformer.
        config: its configuration, from which `from_config` makes it anew.

    Raises:
        EncoderError: it has no table of positions.
    """

    def __init__(self, model: nn.Module, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.model, self.config = _without_pooler(model), dict(config)
        self.frozen = False
        self._settings: Any = model.config  # with one name for what encoders name differently
        self._position_table = _position_table(model)
        self._kept: dict[bytes, Tensor] = {}
        self._kept_bytes = 0

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> PretrainedEncoder:
        """An encoder with random weights, to be filled.

        Raises:
            ConfigError: `transformers` is not installed.
            EncoderError: not the configuration of an encoder.
        """
        auto_config, auto_model = _transformers()
        try:
            settings = auto_config.for_model(**config)
            model = auto_model.from_config(settings, attn_implementation="eager", dtype=torch.float32)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EncoderError(f"expected the configuration of a transformer encoder: {error}") from error
        return cls(model, config)

    @property
    def size(self) -> int:
        """Features of a token."""
        return int(self._settings.hidden_size)

    @property
    def vocabulary(self) -> int:
        """Tokens that are known."""
        return int(self._settings.vocab_size)

    @property
    def positions(self) -> int:
        """The longest document, in tokens. Models in RoBERTa's manner leave the first positions to padding."""
        rows, padding = self._position_table
        return rows - (0 if padding is None else padding + 1)

    def freeze(self, frozen: bool) -> None:
        """Hold the weights, switch the encoder's dropout off and keep what is read; or let it learn."""
        self.frozen = frozen
        self.model.requires_grad_(not frozen)
        self.model.train(self.training and not frozen)
        if not frozen:
            self._kept, self._kept_bytes = {}, 0

    def train(self, mode: bool = True) -> PretrainedEncoder:
        """As for any module; a frozen encoder stays without dropout."""
        super().train(mode)
        self.model.train(mode and not self.frozen)
        return self

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """The last layer; padding is not attended to, and its features are undefined.

        Args:
            token_ids: int64 `(batch, time)`, at most `positions` of them.
            lengths: int64 `(batch,)`, real tokens of each document.

        Returns:
            `(batch, time, size)`.
        """
        if self.frozen:
            return self._forward_kept(token_ids, lengths)
        real = torch.arange(token_ids.shape[1], device=token_ids.device) < lengths.unsqueeze(1)
        features: Tensor = self.model(input_ids=token_ids, attention_mask=real.long()).last_hidden_state
        return features

    def _forward_kept(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """Every document alone and only once; read anew after a resume, it has the same bits."""
        features = torch.zeros(*token_ids.shape, self.size, device=token_ids.device)
        for row, length in enumerate(lengths.tolist()):
            ids = token_ids[row : row + 1, :length]
            key = ids.cpu().numpy().tobytes()
            found = self._kept.get(key)
            if found is None:
                # kept in an evaluation, learned from later
                with torch.inference_mode(False), torch.no_grad():
                    found = self.model(input_ids=ids).last_hidden_state[0]
                if self._kept_bytes + found.nbytes <= _KEPT_BYTES:
                    self._kept[key] = found
                    self._kept_bytes += found.nbytes
            features[row, :length] = found
        return features


def encoder_folder(name: str, root: Path) -> Path:
    """Where the configuration's folder is: a path from `root`, or `package:NAME/FOLDER` of an installed package.

    Raises:
        EncoderError: there is no such package or folder, or a file of it is missing.
    """
    if name.startswith(_PACKAGE):
        package, _, inside = name.removeprefix(_PACKAGE).partition("/")
        found = importlib.util.find_spec(package) if package.isidentifier() else None
        if found is None or not found.submodule_search_locations:
            raise EncoderError(f"{name}: expected an installed package '{package}', found none")
        folder = Path(found.submodule_search_locations[0]) / inside
    else:
        folder = root / name
    if not folder.is_dir():
        raise EncoderError(f"{folder}: expected a folder with an encoder, found none")
    for file, what in ((CONFIG, "configuration"), (TOKENIZER, "tokenizer"), (WEIGHTS, "weights")):
        if not (folder / file).is_file():
            raise EncoderError(f"{folder}: expected the encoder's {what} in {file}, found no such file")
    return folder


def read_encoder(folder: Path) -> PretrainedEncoder:
    """The encoder of a folder with its pretrained weights.

    Raises:
        ConfigError: `transformers` is not installed.
        EncoderError: a file is damaged, or weights are missing or of another shape.
    """
    auto_config, auto_model = _transformers()
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        auto_config.for_model(**config)
        model, loading = auto_model.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            attn_implementation="eager",
            dtype=torch.float32,
            output_loading_info=True,
        )
    except Exception as error:  # the library raises whatever the damage makes it stumble over
        raise EncoderError(f"{folder}: expected a transformer encoder: {error}") from error
    missing = sorted(name for name in loading["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise EncoderError(
            f"{folder / WEIGHTS}: expected all weights, found none for {', '.join(missing[:3])}"
        )
    try:
        return PretrainedEncoder(model, config)
    except EncoderError as error:
        raise EncoderError(f"{folder}: {error}") from error


def read_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer that the encoder was trained with; it neither pads nor cuts.

    Raises:
        EncoderError: it is damaged.
    """
    path = folder / TOKENIZER
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise EncoderError(f"{path}: expected a tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def weights_sha256(folder: Path) -> str:
    """The hexadecimal SHA-256 of the encoder's weights."""
    with (folder / WEIGHTS).open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _position_table(model: nn.Module) -> tuple[int, int | None]:
    """How many positions an encoder has learned, and which of them is padding's."""
    try:
        table = model.get_submodule("embeddings.position_embeddings")
    except AttributeError:
        table = None
    if not isinstance(table, nn.Embedding):
        raise EncoderError(
            "expected an encoder with a table of positions, as BERT, ALBERT, RoBERTa and DistilBERT have, "
            f"found {type(model).__name__}"
        )
    return table.num_embeddings, table.padding_idx


def _without_pooler(model: nn.Module) -> nn.Module:
    """BERT and ALBERT end in a layer for another task, which must not be trained or exported with the features."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None  # type: ignore[assignment]
    return model


def _transformers() -> tuple[Any, Any]:
    try:
        from transformers import AutoConfig, AutoModel
        from transformers.utils import logging
    except ImportError as error:
        raise ConfigError(
            "an encoder needs transformers: in the checkout, pip install -c constraints.txt -e '.[cpu,train,encoder]'"
        ) from error
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return AutoConfig, AutoModel
