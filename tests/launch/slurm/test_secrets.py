"""Secrets are found by their variable's name, whatever text they stand in, and never repeated."""

import pytest

from repro.errors import UserError
from repro.launch.slurm.validation import refuse_secrets

SECRETS = {
    "WANDB_API_KEY": "0123456789abcdef" * 2,
    "HF_TOKEN": "hf_sesame_open",
    "AWS_SECRET_ACCESS_KEY": "pässwörter/+=",
    "MY_PASSWORD": "correct horse",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_found_and_not_repeated(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, SECRETS[name])
    for text in (f"a {SECRETS[name]} b", f"a {SECRETS[name]} b".encode()):
        with pytest.raises(UserError, match=rf"\${name}") as caught:
            refuse_secrets("the script", text)
        assert SECRETS[name] not in str(caught.value)
    monkeypatch.delenv(name)
    refuse_secrets("the script", SECRETS[name])


def test_short_values_and_other_variables_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "SOME_KEY": "1234567",
        "TOKENIZERS_PARALLELISM": "false---",
        "ANY": "/home/me/x",
    }.items():
        monkeypatch.setenv(name, value)
    refuse_secrets("x", "1234567 false--- /home/me/x")
    monkeypatch.setenv("SOME_KEY", "12345678")
    with pytest.raises(UserError, match="SOME_KEY"):
        refuse_secrets("x", "x 12345678 y")
