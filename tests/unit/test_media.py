"""Media types by their bytes."""

import pytest
from harness import media as files

from minideep import Audio, Document, Image, Text, Video
from minideep.media import IMAGES, RECORDED, labelled, media_type, refusal, sendable, type_of


@pytest.mark.parametrize("data", files.TYPES, ids=files.TYPES.values())
def test_the_first_bytes_say_the_type(data):
    assert media_type(data) == files.TYPES[data]


@pytest.mark.parametrize(
    "text", [b"", b"BMW sells cars.", b"ID3 is a tag.", b"RIFFRAFF in town", b"GIF8", b"\x89PNG", b"<svg/>", b"PK\3\4"]
)
def test_bytes_that_only_resemble_a_type_have_none(text):
    assert media_type(text) == ""


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (Image(files.JPEG, "image/png"), "image/jpeg"),
        (Image(files.JPEG, "image/jpg"), "image/jpeg"),
        (Image(files.TIFF), "image/tiff"),
        (Image(b"GIF8"), ""),
        (Image(b"<svg/>", "image/svg+xml"), "image/svg+xml"),
        (Document(b"%PDF- is how a PDF begins", "text/plain"), "text/plain"),
        (Document(files.PDF, "application/octet-stream"), "application/pdf"),
        (Document(b"no PDF"), ""),
        (Audio(files.MP4, "audio/mp4"), "audio/mp4"),
        (Audio(files.WEBM, "audio/webm"), "audio/webm"),
        (Audio(b"raw", "audio/pcm"), "audio/pcm"),
        (Audio(files.MP3), "audio/mpeg"),
        (Video(files.OGG), "video/ogg"),
        (Video(files.PNG), "image/png"),
    ],
)
def test_a_block_has_the_type_of_its_bytes_or_a_label_that_they_do_not_contradict(block, kind):
    assert type_of(block) == kind


def test_a_wrong_label_is_corrected_and_a_right_one_costs_no_copy():
    right = Image(files.PNG)
    assert labelled(right) is right
    assert labelled(Image(files.PNG, "image/jpeg")) == right


def test_what_an_api_does_not_take_is_sent_as_a_text_that_says_so():
    assert sendable(Image(files.JPEG), *IMAGES) == Image(files.JPEG, "image/jpeg")
    assert sendable(Document(b"a,b", "text/csv"), "application/pdf", "text/") == Document(b"a,b", "text/csv")
    left_out = sendable(Image(files.BMP), "image/png", "image/jpeg")
    assert left_out == Text("[image left out: image/bmp; this model takes image/png, image/jpeg]")
    assert sendable(Image(b"GIF8"), *IMAGES).text.startswith("[image left out: not image/png;")
    assert sendable(Video(files.MP4)) == Text("[video left out: video/mp4; this model takes no video]")


@pytest.mark.parametrize("data", files.TYPES, ids=files.TYPES.values())
def test_an_image_that_no_provider_takes_is_refused_by_name(data):
    if files.TYPES[data] in RECORDED:
        assert refusal(Image(data)) == ""
    else:
        assert refusal(Image(data)).startswith(f"an image of type {files.TYPES[data]}; models take PNG, ")


def test_bytes_of_no_known_type_are_shown():
    assert refusal(Image(b"<html>")).startswith("an image that begins with b'<html>', unlike image/png; models take ")
    assert refusal(Document(b"<html>")) == ""
