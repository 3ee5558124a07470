"""Messages are encoded once, and kept by the bytes they take."""

import msgspec
import pytest

from minideep.messages import UserMessage
from minideep.models.body import Encoded, Part, array, encode


def recording(limit=10**6, size=10):
    asked = []

    def encoded(message):
        asked.append(message.text)
        return Part([b"x" * size])

    return Encoded(encoded, limit), asked


def test_a_message_is_encoded_once():
    encoded, asked = recording()
    first, again = UserMessage("a"), UserMessage("a")
    for one in (first, first, again, first, again):
        encoded(one)
    assert asked == ["a", "a"]


def test_what_the_latest_requests_used_is_kept_when_it_is_full():
    encoded, asked = recording(limit=100)
    messages = [UserMessage(str(number)) for number in range(6)]
    for number in range(1, 6):  # Each request has one message more.
        for message in messages[:number]:
            encoded(message)
    for number in range(50):
        encoded(UserMessage(f"other {number}"))
        for message in messages[:4]:
            encoded(message)
    assert [text for text in asked if not text.startswith("other")] == ["0", "1", "2", "3", "4"]


def test_it_holds_no_more_than_its_limit():
    encoded, asked = recording(limit=1000, size=100)
    messages = [UserMessage(str(number)) for number in range(100)]
    for message in messages:
        encoded(message)
    for message in reversed(messages):
        encoded(message)
    assert 100 + 100 - 12 <= len(asked) < 200


def test_parts_are_joined_without_being_encoded_again():
    assert encode({"a": array([encode({"b": 1}), encode("c")])}) == b'{"a":[{"b":1},"c"]}'


def test_a_lone_surrogate_is_replaced_wherever_it_stands():
    assert encode({"a": "\ud800é", "b": array([b'{"c":1}'])}) == '{"a":"?é","b":[{"c":1}]}'.encode()


def test_what_json_cannot_express_is_refused():
    with pytest.raises(TypeError, match="JSON cannot express"):
        encode({"a": object()})
    assert msgspec.json.decode(encode({"a": float("nan")})) == {"a": None}
