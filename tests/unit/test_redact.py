"""What other programs say, without secrets and fit for one line."""

import pytest

from watchdog.redact import MAX_LENGTH, last_line, masked, redacted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("permission denied", "permission denied"),
        ("no secret db/orders in the vault", "no secret db/orders in the vault"),
        ("password=hunter2 is wrong", "password=***"),
        ("PGPASSWORD: hunter2", "PGPASSWORD: ***"),
        ('{"api_key": "hunter2"}', '{"api_key": ***'),
        ("cannot reach https://me:hunter2@vault/v1", "cannot reach https://***@vault/v1"),
        ("postgresql://me:hun/ter@2@h/db", "postgresql://***@h/db"),
        ("token dGhpcyBpcyBub3Q1 expired", "token *** expired"),
        ("0123456789abcdef", "***"),
        ("internationalization", "internationalization"),
        ("a\tb\x00c\x1b[1m\u202e", "a\\tb\\x00c\\x1b[1m\\u202e"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, shown: str) -> None:
    assert redacted(text, ()) == shown


def test_known_secrets_are_masked_whatever_they_look_like_the_longest_first() -> None:
    assert redacted("horse, horseradish; cart", ("horse", "horseradish", None, "")) == "***, ***; cart"
    assert masked("horse at db-orders-2024-primary", ("horse",)) == "*** at db-orders-2024-primary"


def test_a_secret_is_masked_before_the_text_is_cut() -> None:
    secret = "correct horse"
    assert "corr" not in redacted("x " * (MAX_LENGTH // 2 - 2) + secret, (secret,))
    assert len(redacted("x " * MAX_LENGTH, ())) == MAX_LENGTH + 1


def test_the_last_line_is_the_last_that_is_not_blank() -> None:
    assert last_line("one\n two \n\n  \n") == "two"
    assert last_line("\n") == ""
