"""Damaged frames and streams, read in a child process so that a crash of pyarrow is a failed test."""

from __future__ import annotations

import collections
import contextlib
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sparkport.errors import InvalidRequestError, LimitExceededError
from sparkport.protocol.ipc.flight_data import Decoder, Encoder, Limits, decode

from .arrow_samples import batches, frame, frames_of, ipc_stream

ROOT = Path(__file__).parents[4]
MODULE = "tests.unit.protocol.ipc.test_flight_data_fuzz"
CASES = 12_000
LIMITS = Limits(decompressed_bytes=1 << 24)
SHOWN_ROWS = 1_000

_WORDS = (0, 1, 2, 3, 4, 7, 8, 12, 16, 24, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 1 << 31, 1 << 40, 1 << 62, 1 << 63)


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_streams_end_in_an_error_or_in_valid_batches(seed: int) -> None:
    """No damage to a stream crashes the reader, hangs it, or raises anything but the two errors it names."""
    child = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", MODULE, str(seed), str(CASES)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=ROOT,
    )

    assert child.returncode == 0, f"{child.stdout[-500:]}\n{child.stderr[-3000:]}"
    assert f"{CASES} cases" in child.stdout


def main(seed: int, cases: int) -> None:
    """Read damaged streams, each made by its own number so that it can be made again."""
    streams = _streams()
    outcomes: collections.Counter[str] = collections.Counter()
    for case in range(cases):
        try:
            outcomes[run(streams, seed, case)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, case {case}: {error!r}") from error
    print(f"{outcomes.total()} cases: {dict(outcomes)}")  # noqa: T201


def run(streams: list[list[bytes]], seed: int, case: int) -> str:
    """Read one damaged stream and name how that ended."""
    rng = random.Random(f"{seed} {case}")
    frames = _damage_stream(rng, rng.choice(streams), streams)
    try:
        _consume(frames)
    except (InvalidRequestError, LimitExceededError) as error:
        return type(error).__name__
    return "valid"


def _streams() -> list[list[bytes]]:
    samples = batches()
    words = [pa.record_batch({"d": pa.array(w).dictionary_encode()}) for w in (["a"], ["a", "b"], ["c"])]
    return [
        *(frames_of(ipc_stream(batch, batch[1:4])) for batch in samples.values()),
        *(
            frames_of(ipc_stream(samples[name], compression=codec))
            for codec in ("lz4", "zstd")
            for name in ("string", "int64", "list", "dictionary", "string_view", "every type")
        ),
        *(frames_of(ipc_stream(*words, deltas=deltas)) for deltas in (True, False)),
    ]


def _consume(frames: list[bytes]) -> None:
    """Read a stream and use what it gave: what is valid can be written again and shown."""
    decoder = Decoder(map(decode, frames), LIMITS)
    encoder = Encoder(decoder.arrow_schema)
    for batch, _ in decoder:
        encoder.batch(batch)
        if batch.num_rows < SHOWN_ROWS:
            str(batch.schema)
            for column in batch.columns:
                _use(column)


def _use(column: pa.Array) -> None:
    """Run the kernels that follow offsets and views without a look at the nulls."""
    column.to_string()
    backwards = pa.array(range(len(column))[::-1], pa.int64())
    kernels: list[Callable[[], object]] = [
        lambda: column.take(backwards),
        lambda: pa.concat_arrays([column, column]),
        lambda: pc.list_flatten(column),
        lambda: column.cast(pa.large_string()),
        lambda: column.cast(pa.int64(), safe=False),
    ]
    for kernel in kernels:
        # Most kernels have no variant for most types; a crash is what is looked for.
        with contextlib.suppress(pa.ArrowException):
            kernel()


def _damage_stream(rng: random.Random, frames: list[bytes], streams: list[list[bytes]]) -> list[bytes]:
    frames = list(frames)
    at = rng.randrange(len(frames))
    whole = decode(frames[at])
    header, body = bytearray(whole.header), bytearray(whole.body)
    match rng.choices(("header", "body", "both", "frame", "order", "splice"), (12, 4, 3, 2, 1, 1))[0]:
        case "header":
            _damage(rng, header)
        case "body":
            _damage(rng, body)
        case "both":
            _damage(rng, header)
            _damage(rng, body)
        case "frame":
            damaged = bytearray(frames[at])
            _damage(rng, damaged)
            frames[at] = bytes(damaged)
            return frames
        case "order":
            frames.insert(rng.randrange(len(frames) + 1), frames.pop(at))
            return frames
        case "splice":
            frames[at:] = rng.choice(streams)[at:]
            return frames
    frames[at] = frame(bytes(header), bytes(body))
    return frames


def _damage(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not data:
            return
        at = rng.randrange(len(data))
        match rng.choices(("bit", "byte", "word", "step", "cut", "copy"), (3, 3, 6, 4, 1, 1))[0]:
            case "bit":
                data[at] ^= 1 << rng.randrange(8)
            case "byte":
                data[at] = rng.randrange(256)
            case "word":
                width = rng.choice((1, 2, 4, 8))
                at -= at % width
                word = rng.choice((*_WORDS, -1, -2)) % (1 << 8 * width)
                data[at : at + width] = word.to_bytes(width, "little")[: len(data) - at]
            case "step":
                width = rng.choice((2, 4, 8))
                at -= at % width
                word = int.from_bytes(data[at : at + width], "little") + rng.choice((-8, -4, -1, 1, 4, 8))
                data[at : at + width] = (word % (1 << 8 * width)).to_bytes(width, "little")[: len(data) - at]
            case "cut":
                del data[at:]
            case "copy":
                chunk = data[at : at + 16]
                to = rng.randrange(len(data))
                data[to : to + len(chunk)] = chunk


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
