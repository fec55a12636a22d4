from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

from models.errors import VectorsError
from models.text.vectors import Coverage, WordVectors, embedding_matrix, read_vectors

WORDS = ["the", "café", "-lrb-"]
VECTORS = np.array([[1, 2], [-0.5, 0.25], [3, 4]], dtype=np.float32)
TEXT = "the 1 2\ncafé -0.5 0.25\n-lrb- 3 4\n".encode()


def write_npz_bytes(path: Path) -> None:
    np.savez(path, words=np.frombuffer("\n".join(WORDS).encode(), dtype=np.uint8), vectors=VECTORS)


def write_npz_strings(path: Path) -> None:
    np.savez(path, words=np.array(WORDS), vectors=VECTORS.astype(np.float16))


def write_safetensors(path: Path) -> None:
    save_file({"vectors": VECTORS}, path, {"words": "\n".join(WORDS)})


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("bytes.npz", write_npz_bytes),
        ("strings.npz", write_npz_strings),
        ("vectors.safetensors", write_safetensors),
        ("glove.txt", lambda path: path.write_bytes(TEXT)),
        ("word2vec.vec", lambda path: path.write_bytes(b"3 2\n" + TEXT)),
        ("marked.txt", lambda path: path.write_bytes(b"\xef\xbb\xbf" + TEXT)),
        ("spaces.txt", lambda path: path.write_bytes(TEXT.replace(b"\n", b" \r\n"))),
        ("packed.txt.gz", lambda path: path.write_bytes(gzip.compress(b"3 2\n" + TEXT))),
    ],
)
def test_every_format_gives_the_same_vectors(
    tmp_path: Path, name: str, write: Callable[[Path], object]
) -> None:
    write(tmp_path / name)
    found = read_vectors(tmp_path / name)
    assert found.words == tuple(WORDS)
    assert found.dimensions == 2
    np.testing.assert_array_equal(found.vectors, VECTORS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TEXT + b"odd 1 2 3\n", "line 4: expected 2 numbers, found 3"),
        (b"3 2\n" + TEXT + b"odd 1\n", "line 5: expected 2 numbers, found 1"),
        (b"the 1 2\ncat 1 x\n", "line 2: expected a word and its numbers in UTF-8"),
        (b"the 1 2\n\xff 1 2\n", "line 2: expected a word and its numbers in UTF-8"),
        (b"the\n", "line 1: expected some numbers, found 0"),
        (b"", "expected word vectors, found an empty file"),
        (b"9 2\n" + TEXT, "expected 9 words of 2 numbers, as line 1 says, found 3 of 2"),
        (b"3 300\n" + TEXT, "expected 3 words of 300 numbers, as line 1 says, found 3 of 2"),
        (b"the 1 2\ncat 1 nan\n", "line 2: expected finite numbers, found NaN or infinity"),
    ],
)
def test_bad_text_file_is_told_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_bytes(content)
    with pytest.raises(VectorsError) as raised:
        read_vectors(path)
    assert str(raised.value).startswith(f"{path}")
    assert message in str(raised.value)


def test_word_may_have_spaces_in_it(tmp_path: Path) -> None:
    """As `. . .` and `at name@domain.com` of GloVe-840B."""
    (tmp_path / "glove.txt").write_bytes(TEXT + b". . . 5 6\nat name@domain.com 7 8\n")
    found = read_vectors(tmp_path / "glove.txt")
    assert found.words[3:] == (". . .", "at name@domain.com")
    assert found.vectors[3:].tolist() == [[5, 6], [7, 8]]


def test_one_array_in_place_of_two_is_told(tmp_path: Path) -> None:
    with (tmp_path / "array.npz").open("wb") as file:
        np.save(file, VECTORS)
    with pytest.raises(VectorsError, match=r"array\.npz: expected an \.npz with 'words' and 'vectors'"):
        read_vectors(tmp_path / "array.npz")


def test_vectors_without_numbers_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "empty.npz", words=np.array(WORDS), vectors=np.zeros((3, 0)))
    with pytest.raises(VectorsError, match=r"expected one vector per word, found 3 words, vectors \(3, 0\)"):
        read_vectors(tmp_path / "empty.npz")


def test_bfloat16_is_read_though_numpy_lacks_it(tmp_path: Path) -> None:
    tensors = {"vectors": torch.from_numpy(VECTORS).bfloat16()}
    save_torch_file(tensors, tmp_path / "half.safetensors", {"words": "\n".join(WORDS)})
    found = read_vectors(tmp_path / "half.safetensors")
    assert found.words == tuple(WORDS)
    assert found.vectors == pytest.approx(VECTORS, rel=1e-2)


@pytest.mark.parametrize("suffix", ["txt", "txt.gz", "npz", "safetensors"])
def test_missing_file_is_told(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(VectorsError, match="cannot be read: No such file or directory"):
        read_vectors(tmp_path / f"vectors.{suffix}")


@pytest.mark.parametrize("suffix", ["txt", "txt.gz", "npz", "safetensors"])
def test_file_of_another_form_is_told(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"vectors.{suffix}"
    path.write_bytes(b"\x00\x01 no vectors \xff" * 20)
    with pytest.raises(VectorsError, match=str(path)):
        read_vectors(path)


@pytest.mark.parametrize("suffix", ["txt.gz", "npz"])
def test_file_that_ends_early_is_told(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"vectors.{suffix}"
    if suffix == "npz":
        write_npz_bytes(path)
    else:
        path.write_bytes(gzip.compress(TEXT * 100))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(VectorsError, match="expected a whole file, but it ends or breaks early"):
        read_vectors(path)


def test_archive_without_its_arrays_is_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", vectors=VECTORS)
    with pytest.raises(VectorsError, match=r"expected an \.npz with 'words' and 'vectors'"):
        read_vectors(tmp_path / "a.npz")
    save_file({"vectors": VECTORS}, tmp_path / "a.safetensors")
    with pytest.raises(VectorsError, match="expected a tensor 'vectors' and a metadata entry 'words'"):
        read_vectors(tmp_path / "a.safetensors")


@pytest.mark.parametrize("words", [np.frombuffer(b"the\xff", dtype=np.uint8), np.array("the")])
def test_words_of_another_form_are_told(tmp_path: Path, words: NDArray[np.generic]) -> None:
    np.savez(tmp_path / "a.npz", words=words, vectors=VECTORS)
    with pytest.raises(VectorsError, match=rf"{tmp_path / 'a.npz'}: expected"):
        read_vectors(tmp_path / "a.npz")


def test_numbers_that_are_not_finite_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", words=np.array(WORDS), vectors=np.where(VECTORS > 3, np.nan, VECTORS))
    with pytest.raises(VectorsError, match="expected finite numbers, found NaN or infinity"):
        read_vectors(tmp_path / "a.npz")


def test_words_and_vectors_must_match_in_number(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", words=np.array(["a", "b"]), vectors=VECTORS)
    with pytest.raises(VectorsError, match="expected one vector per word, found 2 words"):
        read_vectors(tmp_path / "a.npz")


def vectors(words: str, *rows: list[float]) -> WordVectors:
    return WordVectors(tuple(words.split()), np.array(rows, dtype=np.float32))


VOCABULARY = ["[PAD]", "[UNK]", "both", "left", "right", "none", "-lrb-", "paris"]
LEFT = vectors("both left ( Paris", [1, 2], [3, 4], [5, 6], [7, 8])
RIGHT = vectors("both right", [-1], [-2])


def test_files_are_put_side_by_side_with_zeros_where_one_lacks_the_word() -> None:
    matrix, coverage = embedding_matrix(VOCABULARY, [("left", LEFT), ("right", RIGHT)], 99, seed=1)
    assert matrix.dtype == np.float32
    expected: dict[str, list[float]] = {
        "[PAD]": [0, 0, 0],
        "both": [1, 2, -1],
        "left": [3, 4, 0],
        "right": [0, 0, -2],
        "-lrb-": [5, 6, 0],
        "paris": [7, 8, 0],
    }
    for word, row in expected.items():
        assert matrix[VOCABULARY.index(word)].tolist() == row
    assert coverage == [Coverage("left", 4, 8), Coverage("right", 2, 8)]
    assert str(coverage[0]) == "left: vectors for 4 of 8 words (50%)"


def test_words_without_a_vector_are_drawn_from_the_seed() -> None:
    def drawn(seed: int) -> NDArray[np.float32]:
        matrix, _ = embedding_matrix(VOCABULARY, [("left", LEFT)], 99, seed)
        return matrix[[VOCABULARY.index(word) for word in ("[UNK]", "right", "none")]]

    assert (np.abs(drawn(1)) <= 0.1).all()
    assert (drawn(1) != 0).all()
    np.testing.assert_array_equal(drawn(1), drawn(1))
    assert (drawn(1) != drawn(2)).any()


def test_without_files_the_embedding_has_the_configured_size() -> None:
    matrix, coverage = embedding_matrix(VOCABULARY, [], 5, seed=1)
    assert matrix.shape == (8, 5)
    assert not matrix[0].any()
    assert coverage == []
