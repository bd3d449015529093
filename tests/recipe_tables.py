"""Facts about recipes that no recipe states: allowed differences, untrained recipes, required ones."""

import re

PROTOCOLS = r"model\.init_args\.(protocol|protocols|validation)\..*"
LENGTH = (PROTOCOLS, r"data\..*\.seq_len")
MIXER, POSITIONS = r"model\..*\.mixers\..*", r"model\..*\.positions(\..*)?"
SCORED = {r"checkpoints\.average_last", r"data\..*\.test_split"}  # on newstest2013, the last checkpoint alone
FRENCH = {r"data\..*\.(store|vocab_size|target_language)", r"model\..*\.size"}
# What the points of an ablation may change of the recipe it ablates, as patterns of flattened keys.
ABLATION_KEYS = {
    "attention-is-all-you-need/big": {
        r"trainer\.max_steps", r"checkpoints\.average_last", r"model\..*\.d_model", r"model\..*\.n_heads",
        r"model\..*\.d_ff", r"model\..*\.dropout", *SCORED, *FRENCH,
    },
    "attention-is-all-you-need/base-en-fr": FRENCH,
    "attention-is-all-you-need/variations": {
        *SCORED, MIXER, POSITIONS, r"model\..*\.n_heads", r"model\..*\.d_head", r"model\..*\.d_value",
        r"model\..*\.d_model",
        r"model\..*\.(en|de)coder_layers", r"model\..*\.d_ff", r"model\..*\.dropout", r"model\..*\.label_smoothing",
    },
    "transformer-xl/half-and-shaw": {MIXER, PROTOCOLS, r"data\..*\.context"},
    "transformer-xl/memory": {MIXER, *LENGTH, r"data\..*\.context", r"data\..*\.batch_tokens"},
    "transformer-xl/vaswani": {MIXER, POSITIONS, PROTOCOLS, r"data\..*\.context", r"model\..*\.d_ff"},
    "transformer-xl/al-rfou": {POSITIONS, r"model\..*\.d_ff"},
    "transformer-xl/characters": {
        MIXER, r"model\..*\.d_model", r"model\..*\.n_layers", r"model\..*\.d_ff",
        r"data\..*\.store", r"data\..*\.vocab_size", r"model\..*\.size",
    },
    "shortformer/length": {*LENGTH},
    "shortformer/pia-caching": {MIXER, POSITIONS, *LENGTH, r"data\..*\.order"},
    "shortformer/staged-training": {r"data\..*\.stages\..*"},
    "shortformer/staged": {PROTOCOLS, r"data\..*\.stages\..*"},
    "shortformer/staged-final": {*LENGTH},
    "shortformer/cache-only": {POSITIONS, r"model\..*\.mixers\..*\.table"},
    "shortformer/pia": {MIXER, *LENGTH},
    "shortformer/shortformer": {r"data\..*\.stages\..*", r"model\..*\.memory_as_input"},
    "shortformer/section5": {MIXER, POSITIONS, PROTOCOLS, r"data\..*\.order"},
}  # fmt: skip
# Rows of the papers' own models whose numbers are not a trained model's likelihood: tools and clocks measure them.
MEASURED_OTHERWISE = {
    "attention-is-all-you-need": set(),
    "transformer-xl": {"table8", "table9"},
    "shortformer": {"table6", "table7", "table8", "table10"},
    "frozen-pretrained-transformer": set(),
    "linear-transformer": set(),
    "admin": {"external-realformer-rerun", "external-admin-torch"},  # what others measured, and a package
    # formulas, and what others measured
    "reformer": {"table1", "table3", "external-fastai2021-duplication"},
}
# Symbols of stores that recipes cannot be tried on here, and models whose printed size the headers explain.
SYMBOLS = {
    "wikitext-103/words": 267735, "enwik8/bytes-nonl": 204, "enwik8/bytes": 205, "text8/chars": 27,
    "lm1b/words": 793471, "wikitext-103-raw/gpt2": 50257, "pg19-2000/gpt2": 50257,
    "tinyshakespeare/chars": 65,
}  # fmt: skip
MEASURED = ("test/", "val/", "train/", "parameters/", "draw/", "cost/")
OTHER_SIZE = (
    "attention-is-all-you-need/base-en-fr",  # printed for German's larger vocabulary too
    "attention-is-all-you-need/variations",  # within 5 %: printed for a vocabulary of another size, which is not said
    "transformer-xl/wt103-large", "transformer-xl/lm1b-large", "transformer-xl/lm1b@shaw",
    "frozen-pretrained-transformer/",  # printed with the table of tokens, which is not used
    "shortformer/generation-speed",  # two models of the printed size
    "shortformer/tbc",  # printed with a second matrix of tokens, where the text says that one is shared
)  # fmt: skip
# Keys that decide nothing about how a recipe is trained in small, where all data are small and on a CPU.
IDLE = re.compile(
    r"trainer\.accelerator|.*\.dropout|data\.init_args\.(length|shortest|longest|symbols|(val|train|eval)_examples)"
    r"|model\.init_args\.(longest|tokens|repeats|memory)"
)
# Keys that state one quantity: width, updates, size of the vocabulary. Where one stands apart on purpose.
QUANTITIES = (
    (
        "model.net.d_model", "model.net.body.d_model", "model.against.d_model", "model.width", "model.schedule.d_model",
        "data.width",
    ),
    ("model.net.vocabulary.size", "model.against.vocabulary.size", "data.vocab_size"),
)  # fmt: skip
APART = {("transformer-xl/slowdown", "data.width"), ("shortformer/generation-speed", "data.width")}
# Best validated metric by task, where it does not go by the unit of a text.
BEST = {
    "Classification": "accuracy", "SequenceModel": "loss", "PictureModel": "bits_per_dim", "Transcription": "per",
}  # fmt: skip
SELECTED_ON = {
    "infinity-former/sorting": "accuracy"
}  # by the authors, where that is not what a task minimises
# Baselines that the papers' authors trained themselves, or that a recipe trains beside their models.
TRAINED_BASELINES = {
    "transformer-xl": {("table6", row) for row in (
        "xl-128m-shaw", "norec-shaw-full", "norec-shaw-half", "norec-vaswani-half", "al-rfou-128m",
    )} | {("table7", "xl-shaw"), ("table7", "norec")},
    "shortformer": {("table1", f"l{n}") for n in (32, 64, 128, 256, 512, 1024, 1536, 3072)}
    | {(t, f"baseline-{m}") for t in ("table5", "table11") for m in ("no", "sw")}
    | {("section5-ablation", "baseline"), ("section5-ablation", "cache-only"), ("table12", "baseline-no")}
    | {("table3", f"baseline-{m}") for m in ("nonoverlapping", "token-by-token")},
    "frozen-pretrained-transformer": {("table1", row) for row in ("full", "lstm")}
    | {("table2", row) for row in ("random", "bit", "vit")}
    | {("table3", row) for row in ("transformer", "lstm", "lstm-star")}
    | {("table9", row) for row in ("statistics-only", "default")}
    | {("table13", row) for row in ("feedforward", "attention", "both")}
    | {("table14", row) for row in ("all-feedforward", "all-feedforward-last-attention")}
    | {("table6", "random"), ("table16", "random")}
    | {("external-rothermel2021-table1", f"{a}-{b}") for a in ("frozen", "unfrozen") for b in ("random", "pretrained")},
    "linear-transformer": {("figure1", row) for row in ("softmax", "lsh-4", "lsh-8")}
    | {("figure2", row) for row in ("softmax", "lsh-4")}
    | {(table, row) for table in ("table1", "table2") for row in ("softmax", "lsh-1", "lsh-4")}
    | {("table3", row) for row in ("bi-lstm", "softmax", "lsh-4")}
    | {(f"{table}-{data}", row) for table in ("table4", "table5") for data in ("mnist", "cifar10")
       for row in ("softmax", "stateful-softmax", "lsh-1", "lsh-4")},
    "admin": {("table1", row) for row in ("postln-postln", "postln-preln", "preln-preln")}
    | {("table2-iwslt14-de-en", f"{norm}-6l-6l") for norm in ("post-ln", "pre-ln")}
    | {("table2-wmt14-en-de", f"{norm}-{n}l-{n}l") for norm in ("post-ln", "pre-ln") for n in (6, 12, 18)}
    | {("table2-wmt14-en-fr", f"{norm}-{n}") for norm in ("post-ln", "pre-ln") for n in ("6l-6l", "60l-12l")}
    | {("theory-output-change", norm) for norm in ("post-ln", "pre-ln")},
    "reformer": {("table2", "train-full-eval-full"), ("table4", "vaswani-base"), ("table4", "vaswani-big")},
}  # fmt: skip
