"""The exercise at the end of each lesson. Every solution runs (tests/test_lessons.py)."""

from regard.lessons.question import Exercise

TRAIN = """\
import tempfile
from pathlib import Path

import regard
from regard.text.stories import lines, pronouns

folder = Path(tempfile.mkdtemp())
(folder / "stories.txt").write_text("\\n".join(lines(pronouns, 400, seed=1)))
options = {"text": str(folder / "stories.txt"), "tokens": "word", "document": "line"}
options |= {"steps": 60, "width": 32}
"""

EXERCISES = {
    "embedding": Exercise(
        "How wide must the layer be, so that the l2 norm falls below 1/6 on average for six words? Predict "
        "it from the bound 1 - D / V, then train.",
        """\
import regard

for width in (4, 5):
    squared = regard.lesson("embedding", set={"width": width}).steps[2].values
    print(width, squared["loss"], 1 - width / 6)
    assert squared["loss"] > 1 - width / 6 - 1e-6  # never below the bound, so 5 is not enough""",
    ),
    "counting": Exercise(
        "Add the sentence 'students opened their minds'. What is P(books | their) now? Predict it, then "
        "run the lesson.",
        """\
import regard

sentences = ("students opened their books", "students opened their exams", "people walked their dog")
solved = regard.lesson("counting", set={"sentences": (*sentences, "students opened their minds")})
print(solved.value("after"))
assert abs(solved.value("after")["books"] - 1 / 4) < 1e-9  # one of four""",
    ),
    "averaging": Exercise(
        "How long may a sequence with one B be, so that the B keeps more than a hundredth of the average?",
        """\
import regard

for length in (99, 100, 101):
    average = regard.lesson("averaging", set={"sequence": "A" * (length - 1) + "B"}).value("average")
    print(length, average[1])
    assert (average[1] > 0.01) == (length < 100)""",
    ),
    "window": Exercise(
        "The lecture's own exercise: train a fixed-window model, put a recurrent model in the place of "
        "the window, and compare their losses on the same stories. The answer to each story is a name "
        "that lies 8 to 11 words back.",
        TRAIN
        + """
window = regard.train("window", out=str(folder / "window"), window=4, distant=0, **options)
recurrent = regard.train("lstm", out=str(folder / "lstm"), **options)
print("window", window.loss, "lstm", recurrent.loss)
assert window.loss > 0 and recurrent.loss > 0""",
    ),
    "recurrence": Exercise(
        "A gate of 0.9 is applied at each of 50 steps. What is left of the cell? And with 0.99? Compute "
        "it, and check one step with the lesson.",
        """\
import regard

solved = regard.lesson("recurrence", set={"gates": (0.9, 0.99)})
assert solved.value("cell after") == [0.9, 0.99]  # one step
left = [gate**50 for gate in (0.9, 0.99)]
print(left)
assert left[0] < 0.01 < 0.6 < left[1]""",
    ),
    "forgetting": Exercise(
        "Which gate of the trained LSTM keeps the past, and how much of the cell is left after 20 "
        "characters on average?",
        """\
import torch
from regard.inside.forgetting import gate_products
from regard.lessons.shipped import shipped

run = shipped("long-lstm")
rows = torch.tensor([run.tokenizer.prompt("The quick brown fox jumps over the lazy dog. " * 3)])
for gate, left in gate_products(run.language_model, rows).items():
    print(gate, left)
    assert left[20] < left[1] < 1  # each step can only lose""",
    ),
    "directions": Exercise(
        "Which words reach the backward state of the second word? Predict the row, then run the lesson.",
        """\
import regard

row = regard.lesson("directions").steps[1].values["moved"][1]
print(row)
assert row[0] == 0 and min(row[1:]) > 0  # itself and every word after it""",
    ),
    "bottleneck": Exercise(
        "Translate a sentence of your own from the lesson's words with all three networks. At which "
        "length does the model with one vector make its first mistake?",
        """\
import regard
from regard.lessons.shipped import path_of

sentence = "We love the dog"
for joint in ("", " and they love the cat", " and they love the cat because he sang"):
    for name in ("translator-one-vector", "translator-attention"):
        print(name, "|", regard.translate(path_of(name), sentence + joint)[0][0].text)""",
    ),
    "kernels": Exercise(
        "Two keys, 0 and 1, have the values 0 and 1. How narrow must the kernel be, so that the guess at "
        "0.25 is "
        "below 0.01? Solve it on paper, then check.",
        """\
import math
import regard

# powers e^(-0.25^2 / 2w^2), e^(-0.75^2 / 2w^2): they are as 99 to 1 if (0.75^2 - 0.25^2) / 2w^2 = log 99
w = math.sqrt((0.75**2 - 0.25**2) / (2 * math.log(99)))
solved = regard.lesson("kernels", set={"keys": (0.0, 1.0), "values": (0.0, 1.0), "query": 0.25, "width": w})
print(w, solved.value("guess"))
assert abs(solved.value("guess") - 0.01) < 1e-9""",
    ),
    "attention": Exercise(
        "How large must x be in q = [0, x], so that the output for ABAA is at least 0.99 B? Solve it on "
        "paper, then check.",
        """\
import math
import regard

# e^x / (e^x + 3) >= 0.99  <=>  x >= log(3 * 99)
x = math.log(3 * 99)
solved = regard.lesson("attention", set={"sequence": "ABAA", "q": (0.0, x)})
print(x, solved.value("output in base e"))
assert abs(solved.value("output in base e")[1] - 0.99) < 1e-9""",
    ),
    "scores": Exercise(
        "For which pairs of vectors does the scale not matter to the order of the scores? Try two keys "
        "with one query.",
        """\
import regard

def score(kind, k):
    return regard.lesson("scores", set={"q": (1.0, 2.0), "k": k}).value(kind)

first, second = (3.0, -1.0), (0.0, 1.0)
assert score("dot", first) < score("dot", second)
assert score("scaled-dot", first) < score("scaled-dot", second)
print("The order is the same for all vectors: a positive factor keeps it. Only the sharpness of the softmax "
    "changes.")""",
    ),
    "attentive": Exercise(
        "How many scores are computed for a text of n words in all? Write the formula, and check it for "
        "six words.",
        """\
import regard

counts = regard.lesson("attentive").value("scores at each word")
n = len(counts)
print(counts, sum(counts))
assert sum(counts) == n * (n - 1) // 2""",
    ),
    "copying": Exercise(
        "How large must the sentinel be, so that the pointer and the vocabulary are trusted equally?",
        """\
import math
import regard

# e^s = e^4 + 7: the sentinel's power equals the sum of the powers of the eight words
s = math.log(math.exp(4) + 7)
solved = regard.lesson("copying", set={"sentinel": s})
print(s, solved.value("gate"))
assert abs(solved.value("gate") - 0.5) < 1e-9""",
    ),
    "translation": Exercise(
        "Force the second word of the translation to attend to 'you' instead of 'love'. What does the "
        "model write?",
        """\
import regard
from regard.lessons.shipped import path_of

moved = regard.translate(path_of("translator-attention"), "I love you a lot", what_if="2-1")
print(moved.before.text, "->", moved.after.text)
assert moved.before.text == "Te amo mucho" """,
    ),
    "regions": Exercise(
        "How sharp must the query be, so that nine tenths of the weight of a word lie on the right one of "
        "four regions? Predict it from the softmax, then run the lesson.",
        """\
import math

import regard

shapes = ("red circle", "blue square", "green cross", "black ring")
needed = math.log(0.9 * 3 / 0.1)  # e^s / (e^s + 3) = 0.9
for sharpness in (needed - 0.1, needed + 0.1):
    right = regard.lesson("regions", set={"shapes": shapes, "sharpness": sharpness}).value("right")
    print(sharpness, right)
    assert (right > 0.9) == (sharpness > needed)""",
    ),
    "self-attention": Exercise(
        "Give 'lot' half of its weight on 'a', and change nothing else. Which rows of the outputs change?",
        """\
import regard

before = regard.lesson("self-attention").value("lecture")
weights = [list(row) for row in before]
weights[4] = [0.0, 0.0, 0.0, 0.5, 0.5]
after = regard.lesson("self-attention", set={"weights": tuple(map(tuple, weights))}).value("lecture")
changed = [row for row in range(5) if max(abs(a - b) for a, b in zip(before[row], after[row])) > 1e-9]
print(changed)
assert changed == [4]  # each row has its own softmax""",
    ),
    "positions": Exercise(
        "Find two sentences of the same words that mean different things, and check that every encoding "
        "separates them.",
        """\
import regard

solved = regard.lesson("positions", set={"first": "dog bites man", "second": "man bites dog"})
for kind in ("index", "onehot", "sinusoidal", "learned", "rotary"):
    print(kind, solved.value(f"difference with {kind}"))
    assert solved.value(f"difference with {kind}") > 1e-3
assert solved.value("difference with none") < 1e-12""",
    ),
    "heads": Exercise(
        "Which head does the model need when the answer is the first name instead of the second?",
        """\
import regard

for story in ("Ms. Green knew Mr. Smith . then Mr.", "Ms. Green knew Mr. Smith . then Ms."):
    solved = regard.lesson("heads", set={"story": story})
    chances = next(step for step in solved.steps if step.title == "Without each head").values
    needed = min(chances, key=chances.get)
    print(story, max(solved.value("likeliest"), key=solved.value("likeliest").get), needed)""",
    ),
    "masking": Exercise(
        "What is the loss of a model that knows nothing, on a vocabulary of V words? Compare it with the "
        "model that was trained without its mask and then reads with it.",
        """\
import math
import regard
from regard.lessons.shipped import shipped

V = shipped("unmasked").language_model.vocabulary_size
loss = regard.lesson("masking").value("trained without, read with it")
print(math.log(V), loss)
assert loss > 1""",
    ),
    "walk": Exercise(
        "Compute one attention weight of layer 0 by hand: take the scores of 'he' from the walk "
        "through the Transformer, and "
        "apply the softmax.",
        """\
import math
import regard

solved = regard.lesson("walk")
scores, weights = solved.value("scaled scores of he"), solved.value("weights of he")
powers = [math.exp(score) for score in scores]
by_hand = [power / sum(powers) for power in powers]
print(by_hand)
assert max(abs(a - b) for a, b in zip(by_hand, weights)) < 1e-9""",
    ),
    "backpack": Exercise(
        "Add the word 'flu' with a sense of its own (health), and see what 'That flu was sick' says.",
        """\
import regard

solved = regard.lesson("backpack", set={"other": "That flu was sick", "senses": ("flu 0,0,0,1 0,0,0,0",)})
print(solved.value("sentiment, That flu was sick"))
assert solved.value("sentiment, That flu was sick") == [0, 1]""",
    ),
}
