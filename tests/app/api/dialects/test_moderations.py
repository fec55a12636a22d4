from __future__ import annotations

import openai
import pytest

from app.errors import StartError
from app.settings import read_settings
from tests.service import Server


@pytest.fixture
def theirs(moderating: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{moderating.url}/v1", api_key="none", max_retries=0)


def test_their_client_gets_scores_of_what_was_judged(theirs: openai.OpenAI, moderating: Server) -> None:
    texts = ["good film", "bad " * 9]
    with moderating.client() as client:
        ours = client.post("/classify", json={"input": texts, "model": "reviews"}).json()["data"]
    found = theirs.moderations.create(input=texts)
    assert found.model == "reviews@1"
    for result, own in zip(found.results, ours, strict=True):
        negative = own["probs"][0]
        assert result.category_scores.harassment == pytest.approx(negative)
        assert result.categories.harassment is (negative >= 0.5)
        assert result.flagged is (negative >= 0.5)
        assert result.category_applied_input_types.harassment == ["text"]
        assert result.category_applied_input_types.violence == []
        assert result.category_scores.violence_graphic == 0
        assert result.categories.self_harm_intent is False


@pytest.mark.parametrize("model", ["omni-moderation-latest", "reviews", "reviews@1"])
def test_model_may_be_named_or_be_theirs(theirs: openai.OpenAI, model: str) -> None:
    parts: list[openai.types.ModerationTextInputParam] = [{"type": "text", "text": "good"}]
    assert theirs.moderations.create(input=parts, model=model).model == "reviews@1"


def test_model_without_categories_is_refused(theirs: openai.OpenAI, server: Server) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="Expected reviews, got 'topics'"):
        theirs.moderations.create(input="good", model="topics")
    with pytest.raises(openai.UnprocessableEntityError, match=r"Expected reviews, got \(not a name\)"):
        theirs.moderations.create(input="good", model="a film that nobody saw")
    unmapped = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.UnprocessableEntityError, match="READTRACE_MODERATION") as caught:
        unmapped.moderations.create(input="good")
    assert caught.value.code == "no-categories"


def test_image_is_refused(theirs: openai.OpenAI) -> None:
    image: openai.types.ModerationImageURLInputParam = {"type": "image_url", "image_url": {"url": "data:,"}}
    with pytest.raises(openai.UnprocessableEntityError, match="text"):
        theirs.moderations.create(input=[image])


def test_category_that_is_none_stops_the_start() -> None:
    with pytest.raises(StartError, match="harassment"):
        read_settings(moderation={"reviews": {"negative": "rudeness"}})
