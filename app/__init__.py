"""The service and the command line."""

import os

# ONNX Runtime reports its use to its makers unless told not to; a service that reads private texts must not.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
