"""Small files of each media type, as programs write them."""

from base64 import b64decode

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
"""One pixel."""
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xd9"
GIF = b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
WEBP = b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
BMP = b"BM\x3a\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x18\x00"
TIFF = b"II*\x00\x08\x00\x00\x00\x00\x00"
HEIC = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic"
HEIF = b"\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00mif1miaf"
AVIF = b"\x00\x00\x00\x1cftypavif\x00\x00\x00\x00avifmif1miaf"
PDF = b"%PDF-1.7\n%%EOF\n"
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00"
MP3 = b"\xff\xfb\x90\x64" + bytes(413)
TAGGED_MP3 = b"ID3\x04\x00\x00\x00\x00\x00\x00" + MP3
OGG = b"OggS\x00\x02" + bytes(20)
FLAC = b"fLaC\x00\x00\x00\x22"
M4A = b"\x00\x00\x00\x18ftypM4A \x00\x00\x00\x00M4A isom"
MP4 = b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isommp42"
MOV = b"\x00\x00\x00\x14ftypqt  \x20\x05\x03\x00qt  "
WEBM = b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84webmB\x87\x81\x04"
MKV = b"\x1aE\xdf\xa3\xa3B\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x88matroskaB\x87\x81\x04"
AVI = b"RIFF\x00\x10\x00\x00AVI LIST"
TYPES = {
    PNG: "image/png", JPEG: "image/jpeg", GIF: "image/gif", WEBP: "image/webp", BMP: "image/bmp", TIFF: "image/tiff",
    HEIC: "image/heic", HEIF: "image/heif", AVIF: "image/avif", PDF: "application/pdf", WAV: "audio/wav",
    MP3: "audio/mpeg", TAGGED_MP3: "audio/mpeg", OGG: "audio/ogg", FLAC: "audio/flac", M4A: "audio/mp4",
    MP4: "video/mp4", MOV: "video/quicktime", WEBM: "video/webm", MKV: "video/x-matroska", AVI: "video/x-msvideo",
}  # fmt: skip
