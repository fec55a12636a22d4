"""The training loop: it knows no architecture, and takes a killed run to the result of an unbroken one.

A checkpoint holds weights, averages, optimizer, random state and the position within the epoch; batches follow
from seed and epoch alone. So every step after a resume is the step that would have come.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel

from models.architectures.base import Architecture
from models.config import TrainingConfig
from models.data.batches import Batch, make_batch, shuffled_batches
from models.data.documents import Documents
from models.errors import RunError
from models.text.tokenizer import UNKNOWN_ID
from models.training.curves import draw_curves
from models.training.evaluate import predict
from models.training.progress import Progress
from models.training.run_folder import RunFolder

_CHECKPOINT_SECONDS = 60.0  # a kill loses at most about this much work
_ADAMW_EPSILON = 1e-6  # ALBERT's, which the HL-MTGRU paper follows


@dataclass
class Position:
    """Where a run stands; all of it is in the checkpoint."""

    epoch: int = 1
    batch: int = 0  # batches of this epoch that are done
    documents: int = 0  # since the last evaluation, for the mean training loss
    loss_sum: float = 0.0
    best_accuracy: float = -1.0
    best_loss: float = float("inf")  # on dev; decides between epochs of equal accuracy
    best_epoch: float = 0.0
    finished: bool = False
    lines: list[dict[str, object]] = field(default_factory=list)  # metrics.jsonl


class Trainer:
    """Trains one model into one run folder.

    Args:
        model: the network with its initial weights, on its device.
        config: optimizer, schedule, regularisation, epochs, seed.
        train: the training documents.
        dev: the documents that choose the best epoch.
        folder: where checkpoint, best weights, metrics and curves go.
        progress: told of every batch and evaluation.
    """

    def __init__(
        self,
        model: Architecture,
        config: TrainingConfig,
        train: Documents,
        dev: Documents,
        folder: RunFolder,
        progress: Progress,
    ) -> None:
        self.model, self.config, self.train_documents, self.dev = model, config, train, dev
        self.folder, self.progress = folder, progress
        self.device = next(model.parameters()).device
        self.optimizer, self._own_rates = _optimizer(model, config)
        self.average = (
            AveragedModel(model, multi_avg_fn=_moving_average(config.average_decay))
            if config.average_decay
            else None
        )
        self.position = Position()
        self.batches_per_epoch = -(-len(train) // config.batch_size)
        self._saved = time.monotonic()
        torch.manual_seed(config.seed)

    def resume(self) -> None:
        """Go back to the last checkpoint; without one, the run starts over.

        Raises:
            RunError: the checkpoint is damaged or of another network.
        """
        state = self.folder.load_checkpoint()
        if state is None:
            return
        try:
            self.model.load_state_dict(state["model"])  # type: ignore[arg-type]
            self.optimizer.load_state_dict(state["optimizer"])  # type: ignore[arg-type]
            if self.average is not None:
                self.average.load_state_dict(state["average"])  # type: ignore[arg-type]
            self.position = Position(**state["position"])  # type: ignore[arg-type]
            torch.set_rng_state(state["random"])  # type: ignore[arg-type]
            if self.device.type == "cuda":
                torch.cuda.set_rng_state(state["random_cuda"], self.device)  # type: ignore[arg-type]
        except (KeyError, TypeError, RuntimeError, ValueError) as error:
            raise RunError(f"{self.folder.path}: the checkpoint is not one of this run: {error}") from error

    def train(self) -> Position:
        """Train to the last epoch or until the patience is used up; returns where the run ended.

        Raises:
            RunError: the training diverged, or the folder cannot be written.
        """
        while not self.position.finished:
            self._epoch()
        return self.position

    def _epoch(self) -> None:
        config, position = self.config, self.position
        batches = shuffled_batches(
            self.train_documents.lengths, config.batch_size, config.seed, position.epoch
        )
        evaluations = set(
            torch.linspace(0, len(batches), config.evaluations_per_epoch + 1).round().int().tolist()
        )
        for model in {self.model, self._evaluated_model()}:
            model.freeze_words(self._frozen)
        self.progress.start_epoch(position.epoch, config.epochs, len(batches), position.batch)
        for rows in batches[position.batch :]:
            batch = make_batch(self.train_documents, rows).to(self.device)
            loss, skip_rate = self._step(batch)
            position.batch += 1
            position.documents += len(rows)
            position.loss_sum += loss * len(rows)
            self.progress.advance(len(rows), position.loss_sum / position.documents, skip_rate)
            if position.batch in evaluations:
                self._evaluate(position.epoch - 1 + position.batch / len(batches))
            if time.monotonic() - self._saved > _CHECKPOINT_SECONDS:
                self._save()
        waited = position.epoch - max(position.best_epoch, config.frozen_epochs)
        position.finished = position.epoch >= config.epochs or waited >= config.patience
        position.epoch, position.batch = position.epoch + 1, 0
        if position.finished:
            self._save()

    def _step(self, batch: Batch) -> tuple[float, float | None]:
        self.model.train()
        self._set_learning_rate()
        token_ids = self._mask_words(batch)
        answer = self.model(token_ids, batch.lengths)
        loss = functional.cross_entropy(
            answer.logits, batch.labels, label_smoothing=self.config.label_smoothing
        )
        total = loss if answer.penalty is None else loss + answer.penalty
        if answer.reward_loss is not None:
            total = total + answer.reward_loss(batch.labels)
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()
        self.model.constrain()
        if self.average is not None:
            self.average.update_parameters(self.model)
        self._require_finite("training", loss.item())
        return loss.item(), None if answer.skip_rate is None else answer.skip_rate.item()

    def _require_finite(self, split: str, loss: float) -> None:
        """Such weights never recover, and their answers would still count as some accuracy."""
        if not math.isfinite(loss):
            position = self.position
            raise RunError(
                f"{self.folder.path}: the training diverged: the {split} loss is {loss} in epoch {position.epoch}, "
                f"batch {position.batch}; begin anew with a lower training.learning_rate"
            )

    @property
    def _frozen(self) -> bool:
        """Whether this is the first step of two."""
        return self.position.epoch <= self.config.frozen_epochs

    def _set_learning_rate(self) -> None:
        config, share = self.config, 1.0
        rate = (config.frozen_learning_rate if self._frozen else None) or config.learning_rate
        if config.schedule == "linear":
            first, last = (0, config.frozen_epochs) if self._frozen else (config.frozen_epochs, config.epochs)
            done = (self.position.epoch - 1 - first) * self.batches_per_epoch + self.position.batch
            share = 1 - done / ((last - first) * self.batches_per_epoch)
        for group, own in zip(self.optimizer.param_groups, self._own_rates, strict=True):
            group["lr"] = (rate if own is None else own) * share  # its own may be 0

    def _mask_words(self, batch: Batch) -> Tensor:
        config = self.config
        scheduled = max(0.0, config.schedule_mask_start - self.position.epoch * config.schedule_mask_step)
        rate = 1 - (1 - config.word_dropout) * (1 - scheduled)
        if rate == 0:
            return batch.token_ids
        masked = (torch.rand(batch.token_ids.shape, device=self.device) < rate) & (batch.token_ids != 0)
        return batch.token_ids.masked_fill(masked, UNKNOWN_ID)

    def _evaluate(self, epoch: float) -> None:
        position = self.position
        model = self._evaluated_model()
        found = predict(model, self.dev, self.device)
        self._require_finite("dev", found.loss)
        accuracy = float((found.probabilities.argmax(axis=1) == self.dev.labels).mean())
        better = (accuracy, -found.loss) > (position.best_accuracy, -position.best_loss)
        if better:
            position.best_accuracy, position.best_loss, position.best_epoch = accuracy, found.loss, epoch
            self.folder.save_weights(model.state_dict())
        line: dict[str, object] = {
            "epoch": round(epoch, 4),
            "train_loss": position.loss_sum / position.documents,
            "dev_loss": found.loss,
            "dev_accuracy": accuracy,
            "best": better,
        }
        if found.skipped_words is not None:
            line["dev_skip_rate"] = found.skipped_words / found.words
        position.lines.append(line)
        position.documents, position.loss_sum = 0, 0.0
        self.folder.write_metrics(position.lines)
        self.progress.evaluated(line)

    def _evaluated_model(self) -> Architecture:
        if self.average is None:
            return self.model
        averaged = self.average.module
        assert isinstance(averaged, Architecture)
        return averaged

    def _save(self) -> None:
        state: dict[str, object] = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "position": vars(self.position),
            "random": torch.get_rng_state(),
        }
        if self.average is not None:
            state["average"] = self.average.state_dict()
        if self.device.type == "cuda":
            state["random_cuda"] = torch.cuda.get_rng_state(self.device)
        self.folder.save_checkpoint(state)
        if self.position.lines:
            lines, title = self.position.lines, self.folder.path.name
            self.folder.write_curves(lambda path: draw_curves(lines, title, path))
        self._saved = time.monotonic()


_Tensors = tuple[Tensor, ...] | list[Tensor]


def _moving_average(decay: float) -> Callable[[_Tensors, _Tensors, Tensor | int], None]:
    """A moving average that begins short, so that the initial weights are soon forgotten."""

    @torch.no_grad()
    def average(averaged: _Tensors, current: _Tensors, updates: Tensor | int) -> None:
        count = int(updates)
        torch._foreach_lerp_(averaged, current, 1 - min(decay, (1 + count) / (10 + count)))

    return average


def _optimizer(
    model: Architecture, config: TrainingConfig
) -> tuple[torch.optim.Optimizer, list[float | None]]:
    """The optimizer, and the learning rate of each of its groups that has its own."""
    own = model.own_learning_rates()
    groups: dict[tuple[float | None, float], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            decay = config.weight_decay
            if config.optimizer == "adamw" and parameter.ndim < 2:
                decay = 0.0  # as BERT and ALBERT were trained: no decay of biases and normalisation
            if parameter in own:
                decay = 0.0  # a timescale is no weight: decay would drive τ, not the data
            groups.setdefault((own.get(parameter), decay), []).append(parameter)
    described = [{"params": found, "weight_decay": decay} for (_, decay), found in groups.items()]
    rates = [rate for rate, _ in groups]
    if config.optimizer == "adamw":
        return torch.optim.AdamW(described, lr=config.learning_rate, eps=_ADAMW_EPSILON, fused=True), rates
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.Adagrad
    return kind(described, lr=config.learning_rate, fused=True), rates
