"""The items of the five lectures, each with the command that shows it. bench/lectures.py runs them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    says: str
    command: str
    shows: tuple[str, ...]  # names of values of the lesson, or a regular expression after "/" for its prose


def item(says: str, command: str, *shows: str) -> Item:
    return Item(says, command, shows)


LECTURES: dict[str, list[Item]] = {
    "000: from n-grams to self-attention": [
        item("n-grams: count and normalise", "lesson counting", "after", "sum"),
        item(
            "the probability of a pair that was never seen; smoothing",
            "lesson counting",
            "unseen",
            "add 1",
            "Kneser-Ney",
        ),
        item(
            "DAN: A A B A has the average [3/4, 1/4], in any order", "lesson averaging", "average", "averages"
        ),
        item(
            "a fixed window; its projection grows, the recurrent one does not",
            "lesson window",
            "window",
            "rnn",
        ),
        item(
            "RNN: h_i = tanh(W w_i + V h_{i-1}), softmax(U h_i); its size does not depend on length",
            "lesson recurrence",
            "W",
            "V",
        ),
        item(
            "stacked layers, each can be looked at",
            "lesson recurrence",
            "/After 'books' the state of layer 1 is [^\\]]*\\]",
        ),
        item("unrolled, h_i is about sum_j V^(i-j) W w_j", "lesson recurrence", "sum of the terms", "state"),
        item(
            "forgetfulness: gradients of trained models at 1, 10, 50 and 500 steps",
            "lesson forgetting",
            "rnn",
            "lstm",
            "attentive",
            "transformer",
        ),
        item("powers of a trained V", "lesson forgetting", "largest eigenvalue", "V^k"),
        item(
            "O(n) sequential steps; attention needs one",
            "lesson forgetting",
            "steps of rnn",
            "steps of transformer",
        ),
        item("an LSTM's gates control which parts change", "lesson recurrence", "forget gate", "cell after"),
        item(
            "AAAA -> A, ABAA -> B, BAAB -> B: the ideal, tried with three queries",
            "lesson attention",
            "outputs",
            "largest error",
        ),
        item("scores s_i = k_i . q: [0, 0, 1, 0]", "lesson attention", "scores"),
        item(
            "softmax with e = 3: [1/6, 1/6, 1/2, 1/6]; output [1/2, 1/2]",
            "lesson attention",
            "weights in base 3",
            "output in base 3",
        ),
        item(
            "q = [0, 10]: weights about [0, 0, 1, 0], output about [0, 1]",
            "lesson attention --set q=0,10",
            "weights in base e",
            "output in base e",
        ),
        item(
            "keys and queries are learned maps: (E W^K)(W^Q e)",
            "lesson attention",
            "E W^K",
            "W^Q e_B",
            "learned query",
        ),
        item(
            "all As: no B to find",
            "lesson attention --set sequence=AAAA",
            "/There is no B[^.]*\\.",
            "output in base e",
        ),
        item("self-attention: S = Q K^T is len x len", "lesson walk", "/S has 13 x 13 numbers"),
        item(
            "an RNN is sensitive to position; a Transformer is a layer (e1, e2, e3) -> (e1', e2', e3')",
            "lesson positions",
            "difference with none",
            "difference with rotary",
        ),
        item(
            "hard for an RNN when the B is 1000 positions back",
            "puzzle ab --families rnn,lstm --steps 400 --tests 4 1000",
            "says",
        ),
        item(
            "attention at that distance: after 400 steps it fails, after 1,500 it does not",
            "puzzle ab --families lstm,transformer --steps 400 --tests 4 1000",
            "says",
        ),
        item(
            "the same after 1,500 steps",
            "puzzle ab --families lstm,transformer --steps 1500 --tests 4 1000",
            "says",
        ),
    ],
    "001: attention mechanisms": [
        item(
            "trained with the average token cross-entropy over the batch",
            "lesson recurrence",
            "losses of the batch",
            "loss of the batch",
        ),
        item(
            "the bottleneck: one vector holds the context, and quality falls with length; attention stops "
            "the fall",
            "lesson bottleneck",
            "BLEU",
        ),
        item(
            "attention gives the past a direct path for the gradient",
            "lesson forgetting",
            "/The farthest reach[^.]*\\.",
        ),
        item(
            'attention in a recurrent model: 4 scores at "books", 5 after "unwillingly"',
            "lesson attentive",
            "scores at each word",
        ),
        item(
            "weighted average, joined with the state, one softmax",
            "lesson attentive",
            "context",
            "joined width",
            "sum of probabilities",
        ),
        item(
            "attention can be looked at",
            "lesson attentive",
            "likeliest",
            "/At the last word it looks most at [^,]*",
        ),
        item(
            "a warning: it is not an explanation",
            "doubt LESSONS/walk-transformer --text 'Olga called David in the garden . he sang . that was'",
            "target",
            "moved.0.sites",
            "moved.0.divergence",
            "moved.0.variation",
        ),
        item(
            "alignments in translation",
            "lesson translation",
            "/The model writes: [^.]*\\. It looks for [^.]*",
        ),
        item("four score functions", "lesson scores", "additive", "bilinear", "dot", "scaled-dot"),
        item(
            "why scale: the softmax saturates in wide vectors",
            "lesson scores",
            "entropy of softmax of dot",
            "entropy of softmax of scaled dot",
        ),
        item("copying: the average of softmax and pointer", "lesson copying", "softmax", "average"),
        item("a gate learns when to trust which", "lesson copying", "gate", "gated"),
        item(
            '"Ms. ___" should raise the name: a trained model',
            "lesson copying",
            "likeliest",
            "/The pointer looks most at [^,]*",
        ),
        item(
            "names that training never saw are copied as subwords",
            "lesson copying",
            "subwords",
            "P(subword)",
            "unseen names copied whole",
        ),
        item(
            "Q, K, V projections, scaled dot, weighted average of the values", "lesson walk", "weights of he"
        ),
        item(
            '"Nobel committee awards Strickland ...": without a mask the first word sees all, with it '
            "only itself",
            "lesson self-attention",
            "P without a mask",
            "P with a mask",
        ),
        item("several heads, joined and projected", "lesson heads", "maps", "mixed", "projected"),
        item(
            "heads are meant to specialise: a claim to test",
            "lesson heads",
            "labelled",
            "induction score",
            "/Without layer [^.]*\\.\\d+ to [^.]*\\.\\d+; [^.]*\\.\\d+",
        ),
        item("feed-forward layer, stacked layers", "lesson walk", "units", "likeliest"),
        item(
            "no notion of position without position embeddings",
            "lesson positions",
            "difference with none",
            "difference with learned",
        ),
        item(
            "an exercise: put a recurrent model into the window's notebook",
            "lesson window",
            "/The lecture's own exercise[^.]*\\.",
        ),
        item(
            "why not average the keys? keys and values may be the same vectors",
            "lesson self-attention",
            "right",
            "/So here the keys can be averaged[^.]*",
        ),
        item(
            "attention reaches from text to regions of an image",
            "lesson regions",
            "right",
            "said",
            "moved",
        ),
    ],
    "002: embeddings, attention, positions": [
        item(
            "a one-hot word through a narrow layer and back, with cross-entropy",
            "lesson embedding",
            "/The largest output is the word itself[^.]*\\.",
        ),
        item("a one-hot word picks a row of E in a trained model", "lesson walk", "vocabulary", "E"),
        item(
            "word embeddings: one-hot words through a narrow layer and back",
            "train embedding --kind one-hot --steps 20 --out one-hot",
            "family",
            "parameters",
        ),
        item(
            "the same with the l2 norm ||input - output||",
            "train embedding --kind one-hot --loss l2 --steps 20 --out one-hot",
            "family",
            "parameters",
        ),
        item(
            "sequence classification", "train classifier --steps 60 --out classifier", "family", "parameters"
        ),
        item(
            "cell state multiplied by gates [1, 0, 0, .5]",
            "lesson recurrence --set gates=1,0,0,0.5",
            "cell after",
        ),
        item(
            'word for word: "The dog ran really fast" works, "I love you a lot" fails',
            "lesson bottleneck",
            "/'The dog.*?mucho\\)",
        ),
        item("the same by three networks", "lesson bottleneck", "/'I love you a lot': word.*?\\. '"),
        item("(#words)^S sentences", "lesson bottleneck", "sentences"),
        item(
            "without parameters: each row sums to 1; W_ij is not W_ji",
            "lesson self-attention",
            "row sums",
            "/The scores are symmetric[^,]*, and the weights are not: [^,]*, [^,]*",
        ),
        item("amo = 1/4 I + 3/4 love", "lesson translation", "Te", "amo", "mucho"),
        item("q, k, v with W_q, W_k, W_v, and the 5 x 5 matrix", "lesson self-attention", "lecture"),
        item(
            '"Jack gave water to Jill" and the reverse look the same',
            "lesson positions",
            "difference with none",
        ),
        item(
            "positions: index, one-hot, sines",
            "lesson positions",
            "difference with index",
            "difference with onehot",
            "difference with sinusoidal",
        ),
        item(
            "three roles of x_i: why there are q, k and v",
            "lesson self-attention",
            "/A vector x_i has three roles[^.]*\\.",
        ),
    ],
    "003: attention and Backpacks": [
        item(
            "Bahdanau: c_t = sum_i a_ti h_i; Vaswani: softmax(Q K^T / sqrt(d)) V",
            "lesson scores",
            "/Bahdanau's score[^.]*\\.",
        ),
        item(
            '"That trick was sick": weights by the formula and by the query',
            "lesson backpack",
            "alpha",
            "query",
        ),
        item("its output and sentiment: positive", "lesson backpack", "output", "sentiment"),
        item('"That surgery was sick": negative', "lesson backpack", "sentiment, That surgery was sick"),
        item(
            "one's own words and senses",
            "lesson backpack --set 'other=That flu was sick' 'senses=flu 0,0,0,1 0,0,0,0'",
            "sentiment, That flu was sick",
        ),
        item(
            "a sense's contribution to any word's score can be read off",
            "lesson backpack",
            "/\\S+, sense \\d raises [^.]*\\.\\d",
        ),
        item("editing a sense changes the model everywhere", "lesson backpack", "before", "after"),
        item(
            "the table of a trained run",
            "senses LESSONS/walk-backpack David",
            "words.0.word",
            "words.0.senses.1.says",
        ),
    ],
    "004: masks and parallelism": [
        item('L_1, L_2, L_3 and L of "students opened their books"', "lesson recurrence", "losses", "loss"),
        item("the batch of three sentences", "lesson recurrence", "loss of the batch"),
        item("h_3 = 0.3 v_1 + 0.5 v_2 + 0.2 v_3, h_2 = 0.3 v_1 + 0.7 v_2", "lesson masking", "h_2", "h_3"),
        item(
            'h_2 -> "their", h_3 -> "books", and L',
            "lesson masking",
            "/h_1 gives [^.]*\\.\\d+; h_2[^.]*\\.\\d+; h_3 [^.]*\\.\\d+",
            "L",
        ),
        item("no q_2 . k_3: row t sees 1..t", "lesson masking", "visible"),
        item("all rows at once equal one row at a time", "lesson masking", "largest difference"),
        item("cheating: the loss without a mask", "lesson masking", "future hidden", "future seen"),
        item(
            "a model really trained without its mask, and what it writes",
            "lesson masking",
            "trained without, read without",
            "trained without, read with it",
            "/It writes '[^']*'",
        ),
        item(
            "the whole walk through an LSTM, an attentive model and a Backpack",
            "lesson walk --set model=lstm",
            "likeliest",
        ),
        item("the same, attentive", "lesson walk --set model=attentive", "likeliest"),
        item("the same, Backpack", "lesson walk --set model=backpack", "likeliest"),
    ],
}
