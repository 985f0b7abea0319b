"""Words a second of an LSTM on wikitext-2 beside pytorch/examples' word_language_model, at its default sizes, interleaved.

    python bench/word_language_model.py --examples PATH --data ../shared/data/wikitext-2

2 layers, width 200, dropout 0.2, untied, batch 20, segments of 35 words, 33,278 words. The peer is given as a checkout, not a dependency.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch

from regard.models.recurrent import Lstm
from regard.runs.descent import Step
from regard.runs.machine import choose_machine
from regard.runs.optimisers import TrainingOptions, make_optimisers
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.schedule import Corpus, LaneSchedule

PASSES, STEPS = 5, 12
BATCH, SEGMENT = 20, 35


def their_step(ids: torch.Tensor, size: int):
    from model import RNNModel

    peer = RNNModel("LSTM", size, 200, 200, 2, 0.2, False).train()
    data = ids[: len(ids) // BATCH * BATCH].view(BATCH, -1).t().contiguous()
    state = {"hidden": peer.init_hidden(BATCH), "place": 0}

    def one() -> None:  # as in its main.py: plain gradient descent at rate 20, norm 0.25
        place = state["place"]
        x, y = data[place : place + SEGMENT], data[place + 1 : place + 1 + SEGMENT].reshape(-1)
        peer.zero_grad()
        output, hidden = peer(x, tuple(part.detach() for part in state["hidden"]))
        loss = torch.nn.functional.nll_loss(output, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 0.25)
        for parameter in peer.parameters():
            parameter.data.add_(parameter.grad, alpha=-20)
        loss.item()
        state.update(hidden=hidden, place=place + SEGMENT)

    return one


def our_step(tokenizer, text, bf16: bool):
    model = Lstm(tokenizer.size, Lstm.Config(layers=2, width=200, dropout=0.2, tied=False)).train()
    optimiser = make_optimisers(model, TrainingOptions())[0]
    corpus, schedule = Corpus.of(text, tokenizer.start, torch.device("cpu")), LaneSchedule(text, SEGMENT, BATCH, seed=1)
    step, memory = Step(model), {"state": None, "place": 0}

    def one() -> None:
        place_BT, _ = schedule.places(0, memory["place"])
        tokens_BT, targets_BT = corpus.rows(place_BT, tokenizer.padding)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss, state = step(tokens_BT, targets_BT, memory["state"])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        loss.item()
        memory.update(state=state, place=memory["place"] + 1)

    return one


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    sys.path.insert(0, str(options.examples / "word_language_model"))
    tokenizer, text = train_tokenizer([(options.data / "train.txt").read_text()], TokenOptions(tokens="word"))
    steps = {
        "pytorch/examples": their_step(text.ids_N.long(), tokenizer.size),
        "ours, fp32": our_step(tokenizer, text, False),
        "ours, auto": our_step(tokenizer, text, choose_machine("auto").bf16),
    }
    rates: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(PASSES):
        for name, step in steps.items():
            began = time.perf_counter()
            for _ in range(STEPS):
                step()
            rates[name].append(STEPS * BATCH * SEGMENT / (time.perf_counter() - began))
    for name, values in rates.items():
        ratio = statistics.median(v / p for v, p in zip(values, rates["pytorch/examples"], strict=True))
        print(f"{name}: {statistics.median(values):,.0f} [{min(values):,.0f}-{max(values):,.0f}] words/s, {ratio:.2f} times the peer")


if __name__ == "__main__":
    main()
