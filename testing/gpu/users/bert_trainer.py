"""transformers' Trainer: a small BERT learns to classify, is evaluated, saved and resumed."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import set_seed

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 120


class Sentences(Dataset):
    """Token 7 appears in a sentence, or it does not."""

    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(8, 2000, (count, 64), generator=g)
        self.labels = torch.randint(0, 2, (count,), generator=g)
        places = torch.randint(1, 64, (count, 6), generator=g)
        for ids, label, where in zip(self.ids, self.labels, places):
            if label:
                ids[where] = 7

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {
            "input_ids": self.ids[i],
            "attention_mask": torch.ones(64, dtype=torch.long),
            "labels": self.labels[i],
        }


def accuracy(p):
    return {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())}


def trainer(folder, steps):
    set_seed(3)
    config = BertConfig(
        vocab_size=2000,
        hidden_size=256,
        num_hidden_layers=6,
        num_attention_heads=8,
        intermediate_size=1024,
    )
    arguments = TrainingArguments(
        folder,
        max_steps=steps,
        per_device_train_batch_size=32,
        per_device_eval_batch_size=64,
        learning_rate=3e-4,
        warmup_steps=10,
        logging_steps=max(1, steps // 6),
        save_steps=max(1, steps // 2),
        eval_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=3,
    )
    made = Trainer(
        BertForSequenceClassification(config),
        arguments,
        train_dataset=Sentences(4096, 1),
        eval_dataset=Sentences(512, 2),
        compute_metrics=accuracy,
    )
    made.remove_callback(PrinterCallback)  # prints times
    return made


torch.use_deterministic_algorithms(True, warn_only=True)
with tempfile.TemporaryDirectory() as folder:
    first = trainer(folder, steps)
    first.train()
    for entry in first.state.log_history:
        if "loss" in entry:
            print("step", entry["step"], "loss", f"{entry['loss']:.6g}")
    result = first.evaluate()
    print("evaluated", f"{result['eval_loss']:.7g}", f"{result['eval_accuracy']:.4f}")
    again = trainer(folder, steps)
    again.train(resume_from_checkpoint=f"{folder}/checkpoint-{steps // 2}")
    result = again.evaluate()
    print("resumed", f"{result['eval_loss']:.7g}", f"{result['eval_accuracy']:.4f}")
