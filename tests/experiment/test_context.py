"""Groups of finished runs, and how much context helps each of them."""

import numpy as np
import pytest
import torch
from torch import Tensor

from repro.data.sets.puzzles.echo import EchoData
from repro.errors import UserError
from repro.experiment import context as module
from repro.experiment.context import ContextSettings, LoadedRun, compare, load_reader, spread_places
from repro.nn.settings import MemorySettings, Remembers
from repro.tasks.language.context import relative_effective_context_length
from repro.training.checkpoints import read
from tests.experiment.finished import PAPER, finished, with_learned_positions
from tests.workshop import RECIPE, STREAM_RECIPE, Workshop

ASKED = ContextSettings(start=2, step=2, longest=12, ratios=(0.2, 1.0), places=20)


def group(*names: str) -> list[LoadedRun]:
    for name in names:
        finished(name)
    return [load_reader(f"{PAPER}/{name}") for name in names]


def slowly(reader: LoadedRun, places: list[int], context: int) -> Tensor:
    """Losses of a run, a window at a time."""
    tokens = reader.data.tokens("test").astype(np.int64)
    result = []
    for place in places:
        ids = torch.from_numpy(tokens[place - context : place])[None]
        result.append(-reader.net.vocabulary.log_probs(reader.net(ids).y)[0, -1, int(tokens[place])].double())
    return torch.stack(result)


def test_every_run_is_asked_about_the_same_evenly_spread_places(workshop: Workshop) -> None:
    readers = group("one", "two")
    messages: list[str] = []
    result = compare(readers, ASKED, messages.append)
    # 83 tokens, of which every other is an answer: 35 behind 12 others, at 13, 15, ..., 81
    answers = [13 + 2 * i for i in range(35)]
    places = [answers[i * 35 // 20] for i in range(20)]
    for reader in readers:
        for mixer in reader.net.modules():
            if isinstance(mixer, Remembers):
                mixer.memory = MemorySettings()
    known = {c: torch.stack([slowly(reader, places, c) for reader in readers]) for c in range(2, 14, 2)}
    for key, ratio in (("0.2", 0.2), ("1", 1.0)):
        expected = relative_effective_context_length(known.__getitem__, ratio, 2, 2, longest=12)
        assert [one["recl"][key] for one in result] == expected
    assert [one["run"] for one in result] == [
        f"{PAPER}/{name}/paper/{_folder(workshop, name)}" for name in ("one", "two")
    ]
    assert len(messages) == len(set(messages)), "losses are shared between the ratios"
    assert messages[0] == "context 2: 2 models, 20 places"


def _folder(workshop: Workshop, name: str) -> str:
    return next((workshop.runs / PAPER / name / "paper").iterdir()).name


def test_known_lengths_and_where_the_search_ended(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = group("one", "two", "three")
    reaches = dict(zip((id(reader.net) for reader in readers), (6, 99, 11), strict=True))

    def losses(net: object, tokens: object, places: list[int], context: int) -> Tensor:
        return torch.full((len(places),), 9.0) - 0.1 * min(context, reaches[id(net)])

    monkeypatch.setattr(module, "losses_with_context", losses)
    result = compare(readers, ASKED)
    assert [one["recl"] for one in result] == [{"0.2": n, "1": n} for n in (6, 12, 12)]
    assert [one["at_longest"]["1"] for one in result] == [False, True, True]
    further = compare(readers, ContextSettings(2, 2, 13, (1.0,), 20))
    assert [(one["recl"]["1"], one["at_longest"]["1"]) for one in further] == [
        (6, False),
        (12, True),
        (12, True),
    ]
    more = compare(readers, ContextSettings(2, 2, 14, (1.0,), 20))
    assert [(one["recl"]["1"], one["at_longest"]["1"]) for one in more] == [
        (6, False),
        (14, True),
        (12, False),
    ]
    how = {
        "start": 2,
        "step": 2,
        "longest": 14,
        "places": 20,
        "threshold": 0.01,
        "data": "echo",
        "split": "test",
    }
    assert how.items() <= more[0].items()
    assert more[0]["parameters"] == sum(p.numel() for p in readers[0].net.parameters())


def test_a_split_is_the_one_that_was_asked_for(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    (reader,) = group("one")
    seen: list[int] = []

    def losses(net: object, tokens: np.ndarray, places: list[int], context: int) -> Tensor:
        seen.append(int(tokens[:20].astype(int) @ np.arange(20)))
        return torch.zeros(len(places))

    monkeypatch.setattr(module, "losses_with_context", losses)
    for split in ("train", "val", "test"):
        seen.clear()
        compare([reader], ContextSettings(2, 2, 4, (1.0,), 20, split))
        assert seen[0] == int(reader.data.tokens(split)[:20].astype(int) @ np.arange(20))


def test_places() -> None:
    data = EchoData(5, batch_tokens=32, seq_len=4, lag=5, train_tokens=240, eval_tokens=83)
    assert spread_places(data, "test", 36, 10).tolist() == list(range(11, 83, 2))
    assert spread_places(data, "test", 4, 10).tolist() == [11, 29, 47, 65]
    with pytest.raises(UserError, match=r"83 tokens, 36.*behind 10.*--places 37"):
        spread_places(data, "test", 37, 10)
    with pytest.raises(UserError, match="0 of them"):
        spread_places(data, "test", 1, 100)
    data.scored = lambda split: None  # type: ignore[method-assign, assignment, return-value]
    assert spread_places(data, "test", 73, 10).tolist() == list(range(10, 83))


def test_a_run_elsewhere_has_its_folder_for_a_name(workshop: Workshop) -> None:
    folder = finished("one")
    moved = folder.rename(workshop.root / "moved")
    assert load_reader(str(moved)).name == str(moved)
    assert load_reader("moved").name == "moved"


def test_a_reader_has_the_weights_of_its_run(workshop: Workshop) -> None:
    weights = read(finished("one") / "model.pt")["state_dict"]
    reader = load_reader(f"{PAPER}/one")
    assert len(weights) > 10
    for name, value in reader.net.state_dict().items():
        assert torch.equal(value.cpu(), weights[f"net.{name}"]), name
    assert not reader.net.training


def test_data_are_made_ready_first(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare_data(data: EchoData) -> None:
        raise UserError("the store is damaged")

    finished("one")
    monkeypatch.setattr(EchoData, "prepare_data", prepare_data)
    with pytest.raises(UserError, match="damaged"):
        load_reader(f"{PAPER}/one")


def refused(*names: str, asked: ContextSettings = ASKED) -> str:
    with pytest.raises(UserError) as caught:
        compare([load_reader(f"{PAPER}/{name}") for name in names], asked)
    return str(caught.value)


def test_runs_of_other_data_are_refused(workshop: Workshop) -> None:
    finished("one")
    finished("lag", STREAM_RECIPE.replace("lag: 5", "lag: 7"))
    finished("symbols", STREAM_RECIPE.replace("size: 5", "size: 6"))
    output = refused("one", "lag")
    assert "same text only" in output
    assert f"{PAPER}/one/paper/s1-" in output
    assert f"{PAPER}/lag/paper/s1-" in output
    output = refused("symbols", "one")
    assert "vocabulary of 6" in output
    assert "vocabulary of 5" in output


def test_too_few_learned_positions_are_refused_before_anything_is_read(workshop: Workshop) -> None:
    finished("one")
    finished("learned", with_learned_positions(11))
    output = refused("one", "learned")
    assert f"{PAPER}/learned/paper/s1-" in output
    assert "learned 11 positions: --longest must be at most 11, not 12" in output
    readers = [load_reader(f"{PAPER}/{name}") for name in ("one", "learned")]
    assert len(compare(readers, ContextSettings(2, 3, 11, (1.0,), 5))) == 2


def test_another_task_is_refused(workshop: Workshop) -> None:
    finished("words", RECIPE)
    with pytest.raises(UserError, match=r"transformer-xl/words"):
        load_reader(f"{PAPER}/words")


def test_missing_data_and_another_vocabulary_are_refused(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = STREAM_RECIPE.replace("repro.data.EchoData", "repro.data.TextData").replace(
        "size: 5", "size: 10000"
    )
    text = text.replace("batch_tokens", "store: ptb/words, batch_tokens")
    text = text.replace(", lag: 5, train_tokens: 240, eval_tokens: 83", "")
    finished("text", text, vocabulary="b" * 64)
    with pytest.raises(UserError, match="repro data prepare ptb"):
        load_reader(f"{PAPER}/text")
    finished("one", vocabulary="b" * 64)
    assert load_reader(f"{PAPER}/one").data.vocab_size == 5
    monkeypatch.setattr(EchoData, "tokenizer", type("Other", (), {"sha256": "a" * 64}), raising=False)
    with pytest.raises(UserError, match="trained with another vocabulary"):
        load_reader(f"{PAPER}/one")


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"start": 0}, "start must be at least 1"),
        ({"longest": 150}, "start and step together, 200"),
        ({"ratios": (0.5, 2.0)}, "not 2"),
        ({"places": 0}, "places must be at least 1, not 0"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, object], part: str) -> None:
    with pytest.raises(UserError, match=part):
        ContextSettings(**settings)  # type: ignore[arg-type]
