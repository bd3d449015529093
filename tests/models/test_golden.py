"""With the same weights, ours equals the official code: outputs, losses and gradients; see tests/golden."""

import pytest
import torch
from torch import Tensor, nn

from repro.nn import padded_scores, token_scores
from repro.nn.positions.positions import sinusoids
from tests.models import golden
from tests.nn.mixers import difference, gradients, valid

CASES = ["transformer_postnorm", "transformer_prenorm"]
CONTROL = 1e-3


class Run:
    """One golden file, run through our stacks."""

    def __init__(self, name: str) -> None:
        self.arrays, meta = golden.read(name)
        self.tolerance, self.options = meta["tolerance"], meta["options"]
        self.source = self.arrays["in/src"].requires_grad_()
        self.target = self.arrays["in/tgt"].requires_grad_()
        # Masks are True at padding, which stands on the right.
        self.source_lengths = (~self.arrays["in/src_padding_mask"]).sum(1)
        self.target_lengths = (~self.arrays["in/tgt_padding_mask"]).sum(1)
        self.net = golden.Transformer(self.options, golden.under("w/", self.arrays))

    def loss(self, output: Tensor) -> Tensor:
        return (output * self.arrays["in/loss_weight"]).sum()

    def at_valid(self, decoded: Tensor) -> Tensor:
        """Decoder outputs where they mean something.

        torch's decoder hides padded keys from padded queries, ours relies on causality alone, so the two
        differ at padded targets, and only there: no valid query, and no loss, ever looks at them.
        """
        return decoded[valid(self.target_lengths, decoded.shape[1])]


@pytest.mark.parametrize("name", CASES)
def test_the_files_hold_padding_on_the_right_of_both_sides(name: str) -> None:
    run = Run(name)
    for side, lengths in (("src", run.source_lengths), ("tgt", run.target_lengths)):
        mask = run.arrays[f"in/{side}_padding_mask"]
        assert mask.any()
        assert torch.equal(~mask, valid(lengths, mask.shape[1]))


@pytest.mark.parametrize("name", CASES)
def test_outputs_of_every_layer(name: str) -> None:
    run = Run(name)
    encoder, decoder = golden.layer_outputs(run.net.encoder), golden.layer_outputs(run.net.decoder)
    ends: list[Tensor] = []
    run.net.encoder.register_forward_hook(lambda _, __, mixed: ends.append(mixed.y))
    decoded = run.net(run.source, run.source_lengths, run.target)
    assert len(encoder) == len(decoder) == 2
    out, tolerance = golden.under("out/", run.arrays), run.tolerance["out"]
    for i in range(2):
        assert difference(encoder[i], out[f"encoder_layer{i}"]) < tolerance
        expected = run.at_valid(out[f"decoder_layer{i}"])
        assert difference(run.at_valid(decoder[i]), expected) < tolerance
    assert difference(ends[0], out["encoder"]) < tolerance
    assert difference(run.at_valid(decoded), run.at_valid(out["decoder"])) < tolerance
    assert difference(run.loss(decoded), out["loss"]) < tolerance


@pytest.mark.parametrize("name", CASES)
def test_every_gradient(name: str) -> None:
    run = Run(name)
    loss = run.loss(run.net(run.source, run.source_lengths, run.target))
    got = gradients(loss, [run.source, run.target], run.net)
    expected = {"input 0": run.arrays["gin/src"], "input 1": run.arrays["gin/tgt"]}
    for stack in ("encoder", "decoder"):
        official = golden.ours(stack, golden.under("grad/", run.arrays), run.options["norm_first"])
        expected.update({f"{stack}.{key}": value for key, value in official.items()})
    assert got.keys() == expected.keys()
    for key, grad in got.items():
        assert difference(grad, expected[key]) < run.tolerance["grad"], key
    assert max(float(grad.abs().max()) for grad in expected.values()) > 1.0


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_control_ignoring_the_padding_shows(name: str) -> None:
    run = Run(name)
    decoded = run.net(run.source, None, run.target)
    assert difference(run.at_valid(decoded), run.at_valid(run.arrays["out/decoder"])) > CONTROL


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@torch.no_grad()
def test_control_leaving_out_a_final_norm_shows(name: str, stack: str) -> None:
    run = Run(name)
    getattr(run.net, stack).final_norm = nn.Identity()
    decoded = run.net(run.source, run.source_lengths, run.target)
    assert difference(run.at_valid(decoded), run.at_valid(run.arrays["out/decoder"])) > CONTROL


@pytest.mark.parametrize("name", CASES)
def test_control_a_gradient_that_stops_at_the_memory_shows(name: str) -> None:
    run = Run(name)
    run.net.encoder.register_forward_hook(lambda _, __, mixed: mixed._replace(y=mixed.y.detach()))
    loss = run.loss(run.net(run.source, run.source_lengths, run.target))
    (grad,) = torch.autograd.grad(loss, [run.source], allow_unused=True)
    assert grad is None
    assert run.arrays["gin/src"].abs().max() > CONTROL


def tolerance(name: str, kind: str = "out") -> float:
    return golden.read(name)[1]["tolerance"][kind]  # type: ignore[no-any-return]


def smoothing() -> tuple[dict[str, Tensor], Tensor, Tensor, int]:
    arrays, meta = golden.read("label_smoothing")
    targets = arrays["in/target"].long()
    return arrays, arrays["in/logits"].requires_grad_(), targets, meta["options"]["padding_idx"]


def test_label_smoothing_is_the_one_of_tensor2tensor() -> None:
    arrays, logits, targets, padding = smoothing()
    scores = token_scores(logits, targets)
    kept = targets != padding
    loss = scores.smoothed(0.1, logits.shape[1])[kept].sum()
    assert difference(loss, arrays["out/fairseq_new_eps_over_V_minus_1"]) < tolerance("label_smoothing")
    assert difference(scores.nll[kept].sum(), arrays["out/nll_sum"]) < tolerance("label_smoothing")
    assert int(kept.sum()) == int(arrays["out/n_tokens"])
    loss.backward()
    assert difference(logits.grad, arrays["grad_fairseq_new_eps_over_V_minus_1"]) < tolerance(
        "label_smoothing", "grad"
    )  # type: ignore[arg-type]


def test_control_other_definitions_of_label_smoothing_show() -> None:
    arrays, logits, targets, padding = smoothing()
    kept = targets != padding
    loss = token_scores(logits, targets).smoothed(0.1, logits.shape[1])[kept].sum()
    assert difference(loss, arrays["out/nll_sum"]) > CONTROL
    # ε spread over all V tokens: nearly the same at V = 23, and still ten million times the tolerance away.
    assert difference(loss, arrays["out/torch_sum"]) > 1e-5
    plain = token_scores(logits, targets).smoothed(0.0, logits.shape[1])[kept].sum()
    assert difference(plain, arrays["out/nll_sum"]) < tolerance("label_smoothing")


def test_label_smoothing_is_the_one_of_the_annotated_transformer() -> None:
    arrays, logits, targets, padding = smoothing()
    kept, size = targets != padding, logits.shape[1]
    loss = padded_scores(logits, targets, padding).smoothed(0.1, size)[kept].sum()
    assert difference(loss, arrays["out/annotated_eps_over_V_minus_2"]) < tolerance("label_smoothing")
    assert difference(loss, arrays["out/fairseq_new_eps_over_V_minus_1"]) > CONTROL
    loss.backward()
    assert difference(logits.grad, arrays["grad_annotated_eps_over_V_minus_2"]) < tolerance(
        "label_smoothing", "grad"
    )  # type: ignore[arg-type]
    wrong = padded_scores(logits, targets, 0).smoothed(0.1, size)[kept].sum()
    assert difference(wrong, arrays["out/annotated_eps_over_V_minus_2"]) > 1e-5


def test_positions_are_those_of_the_paper() -> None:
    arrays, meta = golden.read("positions")
    table = sinusoids(torch.arange(meta["options"]["n"]), meta["options"]["d"], torch.float64)
    assert difference(table, arrays["out/vaswani_interleaved"]) < tolerance("positions")
    assert difference(table, arrays["out/tensor2tensor_formula"]) > CONTROL
    assert difference(table, arrays["out/fairseq_table"]) > CONTROL
