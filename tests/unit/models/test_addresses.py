"""What may be a `base_url`."""

import pytest

from minideep import ConfigError
from minideep.models import Anthropic, OpenAI, OpenAIChat
from minideep.models.addresses import checked_address, loopback_host, without_login

MODELS = [Anthropic, OpenAI, OpenAIChat]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://box:8000/v1", "http://box:8000/v1"),
        (" https://box/v1/ \n", "https://box/v1"),
        ("http://[::1]:9/v1//", "http://[::1]:9/v1"),
    ],
)
def test_an_address_loses_blanks_and_slashes_around_it(given, expected):
    assert checked_address(given, "M") == expected


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("given", ["", "box", "ftp://box", "http://", "http://box:99999", "http://[box", "/v1"])
def test_what_is_no_address_is_refused_when_the_model_is_made(model, given):
    with pytest.raises(ConfigError, match=f"^{model.__name__}: base_url must be an address such as 'http://.*, not '"):
        model("m", base_url=given)


def test_an_address_without_its_scheme_is_refused_with_the_whole_one():
    with pytest.raises(ConfigError, match=r"not 'localhost:8000/v1'; write 'http://localhost:8000/v1'$"):
        OpenAIChat("m", base_url="localhost:8000/v1")


@pytest.mark.parametrize("given", ["me:sesame99@box/v1", "ftp://me:sesame99@box", "http://me:sesame99@"])
def test_what_may_hold_a_password_is_not_quoted(given):
    with pytest.raises(ConfigError) as caught:
        OpenAIChat("m", base_url=given)
    assert str(caught.value) == "OpenAIChat: base_url must be an address such as 'http://127.0.0.1:8000/v1'"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://box/v1", ("http://box/v1", "")),
        ("https://me:s%40same@box:8/v1?a=b", ("https://box:8/v1?a=b", "me:s@same")),
        ("http://me@box", ("http://box", "me")),
    ],
)
def test_a_name_and_a_password_are_told_from_the_address(url, expected):
    assert without_login(url) == expected


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://localhost:1/v1", "127.0.0.1"),
        ("http://127.8.9.10", "127.8.9.10"),
        ("http://[::1]:80", "::1"),
        ("http://localhost.example.com", ""),
        ("http://127.0.0.1.example.com", ""),
        ("http://10.0.0.1", ""),
    ],
)
def test_only_what_is_certainly_this_machine_counts_as_it(url, host):
    assert loopback_host(url) == host
