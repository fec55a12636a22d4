"""From a trained run to a proven bundle."""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # as in app: ONNX Runtime must not report its use
