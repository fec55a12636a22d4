from __future__ import annotations

from pathlib import Path

import pytest

from models.architectures.clstm import CLSTMConfig
from models.architectures.leap import LeapLSTMConfig
from models.architectures.mtlstm import MTLSTMConfig
from models.config import RunConfig, list_recipes, load_config
from models.errors import ConfigError


@pytest.mark.parametrize("name", list_recipes())
def test_recipe_that_ships_is_a_whole_configuration(name: str) -> None:
    config = load_config(name, {})
    assert config.recipe == name
    assert config.data.train
    assert config.data.name != "unnamed data"
    assert config.data.terms != "not stated"
    assert len(config.data.labels) >= 2
    assert bool(config.vectors.files) != bool(config.encoder.folder)


def test_the_papers_sizes_are_in_the_recipes() -> None:
    news, reviews = load_config("ag-news", {}).model, load_config("imdb", {}).model
    assert isinstance(news, LeapLSTMConfig)
    assert (news.hidden, news.filter_widths, news.filters, news.temperature) == (300, (3, 4, 5), 60, 0.1)
    assert isinstance(reviews, CLSTMConfig)
    assert (reviews.hidden, reviews.groups, reviews.readout) == (120, 3, "slowest")


def test_news_recipes_differ_in_the_model_only() -> None:
    leap, lstm = load_config("ag-news", {}), load_config("ag-news-lstm", {})
    assert (leap.data, leap.tokenizer, leap.vectors, leap.training) == (
        lstm.data,
        lstm.tokenizer,
        lstm.vectors,
        lstm.training,
    )


def test_without_a_recipe_the_defaults_hold() -> None:
    assert load_config(None, {}) == RunConfig()


def test_recipe_is_found_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[model]\narchitecture = "mtlstm"\ngroups = 2\n', encoding="utf-8")
    config = load_config(str(path), {})
    assert config.recipe == "mine"
    assert config.model == MTLSTMConfig(groups=2)


def test_settings_win_over_options_and_options_over_the_recipe() -> None:
    options: dict[str, object] = {"training.epochs": 7, "training.seed": 5, "data.train": None}
    config = load_config("sst2", options, ["training.epochs=9", "model.strategy=slow_to_fast"])
    assert (config.training.epochs, config.training.seed) == (9, 5)
    assert config.data.train == load_config("sst2", {}).data.train
    assert isinstance(config.model, MTLSTMConfig)
    assert config.model.strategy == "slow_to_fast"


@pytest.mark.parametrize(
    ("line", "key", "expected"),
    [
        ("training.learning_rate=1e-2", "learning_rate", 0.01),
        ("training.optimizer = adagrad", "optimizer", "adagrad"),
        ('training.optimizer="adagrad"', "optimizer", "adagrad"),
        ("training.longest=200", "longest", 200),
    ],
)
def test_setting_is_toml_or_a_bare_word(line: str, key: str, expected: object) -> None:
    assert getattr(load_config(None, {}, [line]).training, key) == expected


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "training.epochs",
            "--set expects key=value, for example training.epochs=5, found 'training.epochs'",
        ),
        ("training.epoch=5", "no setting 'training.epoch'"),
        ("speed=5", "no setting 'speed'"),
        (
            "training.epochs=0",
            "setting 'training.epochs': Input should be greater than or equal to 1, found 0",
        ),
        ("training.epochs=many", "setting 'training.epochs': Input should be a valid integer"),
        (
            "training.optimizer=sgd",
            "setting 'training.optimizer': Input should be 'adam', 'adagrad' or 'adamw', found 'sgd'",
        ),
        (
            "model.groups=many",
            "setting 'model.groups': Input should be a valid integer, unable to parse string as an integer, "
            "or: Input should be 'auto', found 'many'",
        ),
        (
            'data.polarity=["low", 2]',
            "setting 'data.polarity.0': Input should be a valid number, unable to parse string as a number",
        ),
        (
            'tokenizer.replace=[["z*", "x"]]',
            "setting 'tokenizer.replace': Value error, expected an expression that matches a character or more, "
            "found 'z*'",
        ),
        ("recipe.name=x", "no setting 'recipe.name': 'recipe' holds a value, not settings"),
        (
            "model.architecture=unheard_of",
            "setting 'model': Input tag 'unheard_of' found using 'architecture' does not match",
        ),
        ("model.periods=3", "no setting 'model.periods'"),
        ("model=3", "setting 'model'"),
        ("model.dropout=2", "setting 'model.dropout': Input should be less than 1, found 2"),
        ("training.learning_rate=inf", "setting 'training.learning_rate': Input should be a finite number"),
        ("model.init_range=inf", "setting 'model.init_range': Input should be a finite number"),
        ("training.seed=-1", "setting 'training.seed': Input should be greater than or equal to 0"),
        (f"training.seed={2**63}", "setting 'training.seed': Input should be less than 9223372036854775808"),
        (
            "data.polarity=[-1, 2]",
            "setting 'data.polarity.1': Input should be less than or equal to 1, found 2",
        ),
        (
            'tokenizer.replace=[["(", "x"]]',
            "setting 'tokenizer.replace': Value error, expected a regular expression, found '('",
        ),
    ],
)
def test_setting_that_cannot_be_meant_is_told(setting: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config("sst2", {}, [setting])
    assert str(raised.value).startswith(message)


def test_every_wrong_setting_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(None, {}, ["training.epochs=0", "training.batch_size=0"])
    assert len(str(raised.value).splitlines()) == 2


def test_list_with_a_wrong_entry_is_told_of_once() -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(None, {}, ["model.architecture=text_cnn", "model.filter_widths=[0]"])
    message = "setting 'model.filter_widths.0': Input should be greater than or equal to 1, found 0"
    assert str(raised.value) == message


def test_unknown_recipe_is_told_with_those_that_ship() -> None:
    with pytest.raises(ConfigError, match=r"no recipe 'imbd': expected a TOML file or one of \['ag-news'"):
        load_config("imbd", {})


@pytest.mark.parametrize("content", [b"[model\n", b"\xff = 1\n"])
def test_recipe_that_is_no_toml_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"{path}: expected a TOML recipe"):
        load_config(str(path), {})


def test_configuration_cannot_be_changed_later() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_config(None, {}).training.epochs = 3  # type: ignore[misc]
