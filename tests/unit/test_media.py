"""Media types by their bytes."""

import os

import pytest
from harness import media as files

from minideep import Audio, ConfigError, Document, Image, MediaLink, Text, Video, load_media
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


OFFICE = "application/vnd.openxmlformats-officedocument"
KINDS = {"image": Image, "audio": Audio, "video": Video, "application": Document}
LOADED = {data: kind for data, kind in files.TYPES.items() if not kind.startswith("image/") or kind in RECORDED}


@pytest.mark.parametrize("data", LOADED, ids=LOADED.values())
def test_a_file_is_loaded_as_the_block_that_its_bytes_are(data, tmp_path):
    (tmp_path / "file.txt").write_bytes(data)
    block = load_media(tmp_path / "file.txt")
    assert type(block) is KINDS[LOADED[data].partition("/")[0]]
    assert (block.data, block.media_type) == (data, LOADED[data])


@pytest.mark.parametrize(
    ("name", "data", "block"),
    [
        ("a.pdf", files.PDF, Document(files.PDF, name="a.pdf")),
        ("a.md", b"# Hi", Document(b"# Hi", "text/markdown", "a.md")),
        ("a.csv", b"a,b", Document(b"a,b", "text/csv", "a.csv")),
        ("a.json", b"{}", Document(b"{}", "application/json", "a.json")),
        ("a", "é".encode(), Document("é".encode(), "text/plain", "a")),
        ("a.svg", b"<svg/>", Document(b"<svg/>", "text/plain", "a.svg")),
        ("A.DOCX", b"PK\3\4\xff", Document(b"PK\3\4\xff", f"{OFFICE}.wordprocessingml.document", "A.DOCX")),
        ("a.doc", b"\xd0\xcf", Document(b"\xd0\xcf", "application/msword", "a.doc")),
        ("a.weba", files.WEBM, Audio(files.WEBM, "audio/webm")),
        ("a.webm", files.WEBM, Video(files.WEBM, "video/webm")),
    ],
)
def test_a_document_says_its_type_by_its_bytes_or_else_by_its_name(name, data, block, tmp_path):
    (tmp_path / name).write_bytes(data)
    assert load_media(str(tmp_path / name)) == block


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("missing.png", None, "missing.png' cannot be read: No such file or directory; check the path"),
        (".", None, "is a folder; give the path of a file"),
        ("a.png", b"PK\3\4\xff", r"begins with b'PK.*', which is no known type; models take images"),
        ("a.md", b"\xff\0", "which is no known type"),
        ("a.md", b"", "a.md' is empty; give what it should hold"),
        (
            "a.jpg",
            b"version https://git-lfs",
            "is called image/jpeg but holds a text, b'version.*'; get the file itself",
        ),
        ("a.bmp", files.BMP, "holds an image of type image/bmp; models take PNG"),
        ("a.png", b"x" * 10_000_001, "has 10,000,001 bytes, more than the 10,000,000 that a message may hold"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named_with_the_remedy(name, data, problem, tmp_path):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError, match=problem):
        load_media(tmp_path / name)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ConfigError, match="is no regular file"):
        load_media(tmp_path / "pipe.png")


def test_a_link_that_an_api_does_not_fetch_is_a_text_with_its_address():
    link = MediaLink("https://example.com/a.png", "image/png")
    assert sendable(link, *IMAGES) is link
    assert sendable(link, "application/pdf") == Text("[not shown: image/png at https://example.com/a.png]")
    assert labelled(link) is link
