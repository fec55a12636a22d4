"""Batches segments of documents that wait, whoever asked; knows nothing of HTTP and of ONNX Runtime."""
