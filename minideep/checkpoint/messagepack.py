"""Counting the values in MessagePack bytes before they are decoded."""

_STEPS = [1] * 0xA0 + [1 + size for size in range(32)] + [1] * 0x40
"""Bytes from a value to the next, by its first byte. The next one after the head of a list or a map is inside it."""
for _size, _kinds in {
    2: (0xC7, 0xC8, 0xC9, 0xCC, 0xD0),
    3: (0xCD, 0xD1, 0xD4, 0xDC, 0xDE),
    4: (0xD5,),
    5: (0xCA, 0xCE, 0xD2, 0xDD, 0xDF),
    6: (0xD6,),
    9: (0xCB, 0xCF, 0xD3),
    10: (0xD7,),
    18: (0xD8,),
}.items():
    for _kind in _kinds:
        _STEPS[_kind] = _size
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Bytes of the length field that follows the first byte of a binary, an extension or a long text."""


def holds_more(data: bytes | memoryview, most: int) -> bool:
    """Return whether *data* holds more than *most* values, counting those in lists and maps. Nothing is decoded.

    An empty list takes one byte in *data* and 64 in memory, so the size alone does not bound the cost of decoding.
    """
    if len(data) <= most:  # A value has at least a byte.
        return False
    place = count = 0
    while place < len(data) and count <= most:
        kind = data[place]
        count += 1
        if kind in _LENGTHS:
            width = _LENGTHS[kind]
            place += width + int.from_bytes(data[place + 1 : place + 1 + width])
        place += _STEPS[kind]
    return count > most
