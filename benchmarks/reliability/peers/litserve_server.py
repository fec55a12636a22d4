"""The reader behind LitServe with its batching: `python litserve_server.py PORT`."""

import sys

import litserve as ls
from fastapi import Request
from reader import Reader


class Classify(ls.LitAPI):
    """One text a request, up to 64 in a batch."""

    def setup(self, device: str) -> None:
        """Open the bundle in the worker."""
        self.reader = Reader()

    def decode_request(self, request: Request) -> str:
        """The text; the annotation makes the service parse the body as JSON, whatever is in it."""
        return str(request["input"])

    def batch(self, inputs: list[str]) -> list[str]:
        """Texts are batched by the reader."""
        return inputs

    def predict(self, texts: list[str]) -> list[dict[str, object]]:
        """Read a batch."""
        return self.reader.read(texts)

    def unbatch(self, output: list[dict[str, object]]) -> list[dict[str, object]]:
        """One answer a request."""
        return output

    def encode_response(self, output: dict[str, object]) -> dict[str, object]:
        """As it is."""
        return output


if __name__ == "__main__":
    server = ls.LitServer(Classify(max_batch_size=64, batch_timeout=0.01), accelerator="cpu")
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False)
