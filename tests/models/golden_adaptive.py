"""Official weights of adaptive vocabularies under our names."""

from typing import Any

import torch
from torch import Tensor, nn

from repro.nn import AdaptiveVocabulary
from tests.models import golden


def from_reversed_gates(theirs: dict[str, Tensor], cutoffs: list[int]) -> dict[str, Tensor]:
    """The vocabulary of kimiyoung/transformer-xl: one table (div_val 1) or one a cluster, gates from the back."""
    result = {f"gate.{kind}": theirs[f"crit.cluster_{kind}"].flip(0) for kind in ("weight", "bias")}
    names = {"word_emb.emb_layers.{}.weight": "table.weight", "crit.out_layers.{}.bias": "bias"}
    for name, ours in names.items():
        parts = [theirs[name.format(c)] for c in range(len(cutoffs) + 1) if name.format(c) in theirs]
        if len(parts) == 1:
            parts = list(parts[0].tensor_split(cutoffs))
        result |= {f"clusters.{c}.{ours}": part for c, part in enumerate(parts)}
    for c in range(len(cutoffs) + 1):
        for name, ours in (("word_emb.emb_projs", "up"), ("crit.out_projs", "down")):
            if f"{name}.{c}" in theirs:
                result[f"clusters.{c}.{ours}.weight"] = theirs[f"{name}.{c}"]
    return result


def from_bands(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The vocabulary of fairseq: a table and a projection for each band."""
    result = {"gate.weight": theirs["decoder.adaptive_softmax.head.class_proj.weight"]}
    for name, value in golden.under("decoder.embed_tokens.embeddings.", theirs).items():
        band, part, _ = name.split(".")
        result[f"clusters.{band}.{('table', 'up')[int(part)]}.weight"] = value
    return result


def fill(module: nn.Module, weights: dict[str, Tensor]) -> None:
    """Copies weights into the parameters of the same names; neither side may have one more."""
    parameters = dict(module.named_parameters())
    assert parameters.keys() == weights.keys()
    with torch.no_grad():
        for name, parameter in parameters.items():
            assert parameter.shape == weights[name].shape, name
            parameter.copy_(weights[name])


def vocabulary(name: str, theirs: dict[str, Tensor], options: dict[str, Any]) -> AdaptiveVocabulary:
    """The vocabulary of a golden file."""
    made = maker(name, options)(options["d_model"], options["d_model"]).double()
    fill(made, vocabulary_weights(name, theirs, options))
    return made


def maker(name: str, options: dict[str, Any], **more: Any) -> Any:
    """A maker of the vocabulary of a golden file."""
    if name.startswith("txl"):
        settings = {
            "size": options["n_token"],
            "cutoffs": options["cutoffs"],
            "div_value": options["div_val"],
            "tied_projections": tied_projections(options),
            "d_embed": options["d_embed"],
        }
    else:
        cutoffs = [int(part) for part in options["adaptive_cutoff"].split(",")]
        settings = {"size": options["V"], "cutoffs": cutoffs, "div_value": options["factor"]}
        settings |= {"head_projection": False, "bias": False}
    return lambda width, d_model: AdaptiveVocabulary(width, d_model, **{**settings, **more})


def tied_projections(options: dict[str, Any]) -> list[bool]:
    """``tie_projs`` of kimiyoung/transformer-xl with an entry for each cluster: what it leaves out is not tied."""
    given = options.get("tie_projs", [])
    return given + [False] * (len(options.get("cutoffs", [])) + 1 - len(given))


def vocabulary_weights(name: str, theirs: dict[str, Tensor], options: dict[str, Any]) -> dict[str, Tensor]:
    """Weights, or gradients, of the vocabulary of a golden file under our names."""
    return from_reversed_gates(theirs, options["cutoffs"]) if name.startswith("txl") else from_bands(theirs)
