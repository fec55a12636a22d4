"""Loads bundles into ONNX Runtime and runs their passes."""
