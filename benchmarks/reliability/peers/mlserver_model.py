"""The reader behind MLServer with its batching, as model-settings.json says: `mlserver start .`."""

from __future__ import annotations

import json

from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceRequest, InferenceResponse
from reader import Reader


class Classifier(MLModel):
    """One text a request, up to 64 in a batch."""

    async def load(self) -> bool:
        """Open the bundle."""
        self.reader = Reader()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Read a batch."""
        texts = StringCodec.decode_input(payload.inputs[0])
        answers = [json.dumps(answer) for answer in self.reader.read(texts)]
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("answer", answers)])
