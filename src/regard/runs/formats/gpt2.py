"""GPT-2 checkpoints as Hugging Face publishes them, read as Transformers, and written: config.json,
model.safetensors, tokenizer files.

GPT-2 is a pre-norm Transformer with learned positions, tanh GELU and a tied readout without bias. Its
matrices lie the other way round. A document begins with `<|endoftext|>`: what this package calls `<s>` has
that token's vector.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken
from tokenizers import Tokenizer as Library
from torch import Tensor

from regard.boundary import build, check_depth, parse_json, quote_fields, read_bytes, read_json
from regard.errors import UserError
from regard.machine.disk import file_hash
from regard.models.building import build_model
from regard.models.model import Model
from regard.models.saved_tensors import check_tensor
from regard.models.transformer import Transformer
from regard.parts.layers import ActivationName
from regard.ranges import Count, Layers, Number, Positive, Share
from regard.runs.formats.format import Format
from regard.runs.run import Run, describe
from regard.tokens.subwords import SubwordTokenizer, byte_level_library, library_from_json

CONFIG, MODEL, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
INDEX = "model.safetensors.index.json"
ACTIVATIONS: dict[str, ActivationName] = {  # theirs: ours
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
Activation = Literal[
    "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu", "gelu_python", "relu", "silu", "swish"
]
THEIRS = {"gelu-tanh": "gelu_new", "gelu": "gelu", "relu": "relu", "silu": "silu"}
ALIASES = {  # of keys, in transformers
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}
LAYER = {  # ours: theirs, and whether it is a matrix
    "attention_norm": ("ln_1", False),
    "project": ("attn.c_attn", True),
    "out": ("attn.c_proj", True),
    "feed_norm": ("ln_2", False),
    "feed.up": ("mlp.c_fc", True),
    "feed.down": ("mlp.c_proj", True),
}
SPECIAL = "<|endoftext|>"


@dataclass(frozen=True, kw_only=True)
class Gpt2Config:
    """The keys of config.json that change a number, with the defaults of transformers."""

    vocab_size: Count = 50257
    n_positions: Count = 1024
    n_embd: Count = 768
    n_layer: Layers = 12
    n_head: Count = 12
    n_inner: Count | None = None
    activation_function: Activation = "gelu_new"
    layer_norm_epsilon: Positive = 1e-5
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    add_cross_attention: Literal[False] = False
    resid_pdrop: Share = 0.1
    bos_token_id: Number | None = 50256
    eos_token_id: Number | None = 50256
    tie_word_embeddings: bool = True

    @classmethod
    def of(cls, data: dict[str, Any], where: str) -> "Gpt2Config":
        """Check the keys. Other keys do not change what the model computes."""
        known = {field.name for field in dataclasses.fields(cls)}
        named = {ALIASES.get(name, name): value for name, value in data.items()}
        values = {name: value for name, value in named.items() if name in known}
        match values.get("eos_token_id"):
            case [first, *_]:  # newer models may have several
                values["eos_token_id"] = first
        try:
            return build(cls, values)
        except UserError as error:
            raise UserError(f"{where}: {quote_fields(str(error))}") from None

    def model(self) -> Transformer.Config:
        return build(
            Transformer.Config,
            {
                "layers": self.n_layer,
                "width": self.n_embd,
                "heads": self.n_head,
                "context": self.n_positions,
                "inner": self.n_inner,
                "activation": ACTIVATIONS[self.activation_function],
                "norm_epsilon": self.layer_norm_epsilon,
                "positions": "learned",
                "dropout": self.resid_pdrop,
                "tied": self.tie_word_embeddings,
                "readout_bias": False,
            },
        )

    def score_scale(self, layer: int) -> float:
        """Return what the scores of a layer are multiplied by, beyond 1 / sqrt(head width)."""
        scale = 1.0 if self.scale_attn_weights else (self.n_embd // self.n_head) ** 0.5
        return scale / (layer + 1) if self.scale_attn_by_inverse_layer_idx else scale

    def token(self, number: int | None) -> int:
        """Return a token of the vocabulary: the last one if the config names none that is in it."""
        return number if number is not None and number < self.vocab_size else self.vocab_size - 1


@dataclass(frozen=True, kw_only=True)
class Index:
    """The content of model.safetensors.index.json: the file of each tensor."""

    weight_map: dict[str, str]
    metadata: dict[str, Any] = field(default_factory=dict)


@final
class Gpt2(Format):
    name = "gpt2"
    about = "a GPT-2 checkpoint"

    def recognises(self, path: Path) -> bool:
        """A folder with the config.json of a Hugging Face model, of whatever kind."""
        try:
            data = read_json(path / CONFIG, str(path)) if path.is_dir() else None
        except (OSError, UserError):
            return False
        return isinstance(data, dict) and "model_type" in data

    def read(self, path: Path, family: type[Model] | None = None) -> Run:
        model, tokenizer = read(path)
        hashes = {name: file_hash(path / name) for name in _weight_files(path)}
        return Run(model.eval(), tokenizer, describe(model, made_from=path.name, files=hashes), path)

    def default_for(self, run: Run) -> bool:
        return isinstance(run.model, Transformer)

    def write(self, run: Run, out: Path) -> None:
        if not isinstance(run.model, Transformer):
            raise UserError(
                f"a GPT-2 checkpoint holds a transformer; this run is of the family {run.model.family}"
            )
        if not isinstance(run.tokenizer, SubwordTokenizer):
            train = "train one with `tokens` bpe"
            raise UserError(
                f"GPT-2 reads byte-pair encoding; this run reads `tokens` {run.tokenizer.kind}: {train}"
            )
        write(run.model, run.tokenizer, out)


def read(folder: Path) -> tuple[Transformer, SubwordTokenizer]:
    """Read a checkpoint. Its sizes are compared with its tensors before anything is allocated."""
    data = read_json(folder / CONFIG, f"{folder}: {CONFIG}")
    if data["model_type"] != "gpt2":
        raise UserError(
            f"{folder}: a checkpoint of {data['model_type']!r}; "
            "of Hugging Face's models, regard reads only 'gpt2'"
        )
    config = Gpt2Config.of(data, f"{folder}: {CONFIG}")
    try:
        model_config = config.model()
        ours = _ours(_load(folder), config)
        end = config.token(config.eos_token_id)
        tokenizer = SubwordTokenizer(_library(folder), "file", end, config.vocab_size)
    except SafetensorError as error:
        raise UserError(f"{folder}: its weights cannot be read ({str(error).splitlines()[0]})") from None
    except (ValueError, UserError) as error:
        raise UserError(f"{folder}: {quote_fields(str(error))}") from None
    model = build_model(Transformer, config.vocab_size, model_config)
    model.assign(ours)
    return model, tokenizer


def _weight_files(folder: Path) -> list[str]:
    """Return the names of the files with the weights: one, or those that an index names."""
    if (folder / MODEL).is_file() or not (folder / INDEX).is_file():
        return [MODEL]
    index = parse_json(Index, read_bytes(folder / INDEX, INDEX), INDEX)
    return sorted(set(index.weight_map.values()))


def _load(folder: Path) -> dict[str, Tensor]:
    """Return the tensors by their names. They are mapped, not read."""
    tensors: dict[str, Tensor] = {}
    for name in _weight_files(folder):
        if Path(name).name != name or not (folder / name).is_file():
            raise UserError(
                f"{name} is missing (weights in other files are not read, least of all pickled ones)"
            )
        tensors |= load_file(folder / name)
    return {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}


def _library(folder: Path) -> Library:
    """Return the tokenizer in tokenizer.json, or in the older pair of vocab.json and merges.txt."""
    if (folder / TOKENIZER).is_file():
        text = read_bytes(folder / TOKENIZER, TOKENIZER)
        check_depth(text, TOKENIZER)
        return library_from_json(text.decode("utf-8", "replace"))
    if not ((folder / "vocab.json").is_file() and (folder / "merges.txt").is_file()):
        raise UserError(f"{TOKENIZER} is missing, or vocab.json and merges.txt in its place")
    check_depth(read_bytes(folder / "vocab.json", "vocab.json"), "vocab.json")
    return byte_level_library(folder / "vocab.json", folder / "merges.txt")


def _ours(theirs: dict[str, Tensor], config: Gpt2Config) -> dict[str, Tensor]:
    """Return the tensors under our names. A ValueError names a tensor of theirs that does not fit."""

    def take(name: str, shape: Sequence[int]) -> Tensor:
        if name not in theirs:
            raise ValueError(f"the tensor {name} is missing")
        check_tensor(name, theirs[name], shape)
        if not bool(theirs[name].isfinite().all()):
            raise ValueError(f"the tensor {name} holds NaN or infinity")
        return theirs[name].float()

    size, width, start = config.vocab_size, config.n_embd, config.token(config.bos_token_id)
    inner = config.n_inner or 4 * width
    shapes = {"ln_1": (width,), "attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width)}
    shapes |= {"ln_2": (width,), "mlp.c_fc": (width, inner), "mlp.c_proj": (inner, width)}
    words = take("wte.weight", (size, width))
    ours = {
        "embedding.weight": torch.cat([words, words[start : start + 1], torch.zeros_like(words[:1])]),
        "trunk.positions.table.weight": take("wpe.weight", (config.n_positions, width)),
        "readout.bias": torch.zeros(size),
    }
    if not config.tie_word_embeddings:
        ours["readout.weight"] = take("lm_head.weight", (size, width))
    for part in ("weight", "bias"):
        ours[f"trunk.final_norm.{part}"] = take(f"ln_f.{part}", (width,))
        for layer in range(config.n_layer):
            for name, (their, matrix) in LAYER.items():
                own = f"trunk.blocks.{layer}.{name}.{part}"
                shape = shapes[their] if part == "weight" else shapes[their][-1:]
                tensor = take(f"h.{layer}.{their}.{part}", shape)
                ours[own] = tensor.T.contiguous() if matrix and part == "weight" else tensor
            # A factor of the scores is a factor of the queries, which are the first rows.
            queries = ours[f"trunk.blocks.{layer}.project.{part}"]
            scale = torch.ones(len(queries))
            scale[:width] = config.score_scale(layer)
            ours[f"trunk.blocks.{layer}.project.{part}"] = (
                (queries.mT * scale).mT.contiguous() if queries.dim() == 2 else queries * scale
            )
    return ours


def write(model: Transformer, tokenizer: SubwordTokenizer, folder: Path) -> None:
    """Write a checkpoint that `transformers` and this package open."""
    _check(model)
    ours = {name: tensor.detach().cpu() for name, tensor in model.tensors().items()}
    words, size = ours["embedding.weight"], model.vocabulary_size
    # If <s> has the vector of a token, as in GPT-2 itself, it is written as that token. Otherwise <s> and the
    # padding are written as tokens of their own.
    same = (words[:size] == words[size]).all(1).nonzero().flatten().tolist()
    own_start = not same
    start = size if own_start else tokenizer.end if tokenizer.end in same else same[0]
    words = words[: size + 2] if own_start else words[:size]
    theirs = {"wte.weight": words, "wpe.weight": ours["trunk.positions.table.weight"]}
    for part in ("weight", "bias"):
        theirs[f"ln_f.{part}"] = ours[f"trunk.final_norm.{part}"]
        for layer in range(model.config.layers):
            for name, (their, matrix) in LAYER.items():
                tensor = ours[f"trunk.blocks.{layer}.{name}.{part}"]
                theirs[f"h.{layer}.{their}.{part}"] = tensor.T if matrix and part == "weight" else tensor
    tensors = {f"transformer.{name}": tensor.contiguous() for name, tensor in theirs.items()}
    if not model.config.tied:
        untied = ours["readout.weight"]
        tensors["lm_head.weight"] = torch.cat(
            [untied, torch.zeros(len(words) - len(untied), untied.shape[1])]
        )
    save_file(tensors, folder / MODEL, metadata={"format": "pt"})
    _write_tokenizer(tokenizer, own_start, folder)
    (folder / CONFIG).write_text(json.dumps(_config(model, len(words), start, tokenizer.end), indent=2))


def _check(model: Transformer) -> None:
    config = model.config
    wanted = {
        "--positions learned": config.positions == "learned",
        "--no-readout-bias": not bool(model.readout.bias.any()),
    }
    wanted |= {
        "--norm pre": config.norm == "pre",
        "no --query-key-norm": not config.query_key_norm,
        "no --key-value-heads": config.key_value_heads in (None, config.heads),
        "--projections learned": config.projections == "learned",
        "--copy none": config.copy == "none",
    }
    missing = [name for name, there in wanted.items() if not there]
    if missing:
        raise UserError(f"GPT-2's form cannot hold this model; train one with {' '.join(missing)}")


def _config(model: Transformer, size: int, start: int, end: int) -> dict[str, Any]:
    config = model.config
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": size,
        "n_positions": config.context,
        "n_embd": config.width,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.inner,
        "activation_function": THEIRS[config.feed_activation],
        "layer_norm_epsilon": config.norm_epsilon,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        "bos_token_id": start,
        "eos_token_id": end,
        "tie_word_embeddings": config.tied,
    }


def _write_tokenizer(tokenizer: SubwordTokenizer, own_start: bool, folder: Path) -> None:
    library = Library.from_str(json.dumps(tokenizer.to_json()["bpe"]))
    known = library.get_vocab_size()
    names = [SPECIAL] if known <= tokenizer.end else []
    names += ["<|startoftext|>", "<|padding|>"] if own_start else []
    library.add_special_tokens([AddedToken(name, special=True) for name in names])
    library.save(str(folder / TOKENIZER))
    start = "<|startoftext|>" if own_start else SPECIAL
    more = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": start,
        "eos_token": SPECIAL,
        "unk_token": SPECIAL,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(more, indent=2))
