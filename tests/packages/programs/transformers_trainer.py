"""Fine-tune a small BERT with the Trainer of transformers."""

import tempfile

import torch
from common import filled, show, tokens
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, Trainer, TrainingArguments


class Sentences(Dataset):
    def __init__(self, count):
        self.ids = tokens("sentences", 64, count, 10)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        ids = self.ids[index]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": (ids[0] > 31).long()}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48,
                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
model = filled(BertForSequenceClassification(config))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, per_device_train_batch_size=8, per_device_eval_batch_size=8, num_train_epochs=2, learning_rate=1e-3,
        report_to=[], use_cpu=True, save_strategy="epoch", logging_steps=4, disable_tqdm=True, eval_strategy="epoch",
        lr_scheduler_type="cosine", warmup_steps=2, gradient_accumulation_steps=2, max_grad_norm=1.0,
        train_sampling_strategy="sequential", data_seed=0,
    )  # fmt: skip
    trainer = Trainer(
        model, arguments, train_dataset=Sentences(32), eval_dataset=Sentences(16), compute_metrics=accuracy
    )
    trainer.remove_callback(PrinterCallback)
    trainer._get_train_sampler = lambda *args: torch.utils.data.SequentialSampler(trainer.train_dataset)
    result = trainer.train()
    show(rounded=True, loss=float(result.training_loss))
    show(steps=result.global_step)
    evaluation = trainer.evaluate()
    show(eval_loss=float(evaluation["eval_loss"]), accuracy=float(evaluation["eval_accuracy"]))
    trainer.train(resume_from_checkpoint=f"{folder}/checkpoint-{result.global_step}")
    show(predictions=torch.tensor(trainer.predict(Sentences(8)).predictions))
