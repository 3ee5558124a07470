"""Bytes as text, and back."""

import pytest
from hypothesis import given, settings, strategies as st

from minideep.backends import decode, encode

MARKED = [
    st.text().map(lambda text, encoding=encoding: f"\ufeff{text}".encode(encoding, errors="surrogatepass"))
    for encoding in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le")
]


@given(st.one_of(st.binary(max_size=30), *MARKED))
@settings(max_examples=500)
def test_what_can_be_decoded_is_encoded_to_the_same_bytes(data):
    decoded = decode(data)
    assert decoded is None or encode("/f", decoded.text, decoded.encoding) == data


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_text_that_a_program_on_windows_wrote_is_read(encoding):
    assert decode("\ufeffGr\u00fc\u00dfe \U0001f600\r\n".encode(encoding)).text == "Gr\u00fc\u00dfe \U0001f600\r\n"


@pytest.mark.parametrize("data", [b"\xff\xfea", b"\xff\xfe\x00\xd8", "\ufeffa".encode("utf-32-le"), b"a\0"], ids=ascii)
def test_what_only_begins_as_utf_16_is_binary(data):
    assert decode(data) is None
