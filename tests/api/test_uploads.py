"""Uploads: from the event loop into a thread, and every way in which they end early."""

import asyncio
import threading
from dataclasses import replace

import pytest
from starlette.requests import ClientDisconnect

from api.double import EVERYTHING, BundlesDouble
from sandseal_host.api.pipe import BodyPipe
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.uploads import Uploads
from sandseal_host.errors import QueueFull, TooLarge
from sandseal_signing.errors import SealTruncated
from support.waiting import until

SEAL = b"SEAL:acme.tiny:" + bytes(300_000) + b":END"


async def pieces(body=SEAL, size=10_000, error=None):
    for at in range(0, len(body), size):
        yield body[at : at + size]
    if error:
        raise error


def upload(chunks, bundles=None, **settings):
    async def main():
        return await Uploads(bundles or BundlesDouble(), ApiSettings(**settings)).accept(chunks, EVERYTHING)

    return asyncio.run(main())


class TestPipe:
    def read_all(self, feed, sizes=(1, 7, 100_000, -1)):
        """What a thread reads while `feed` writes."""

        async def main():
            pipe = BodyPipe(60.0)
            reader, got = pipe.reader(), []

            def read():
                got.extend(reader.read(size) for size in sizes)

            work = asyncio.get_running_loop().run_in_executor(None, read)
            await feed(pipe)
            await work
            return got

        return asyncio.run(main())

    def test_reads_like_a_file(self):
        body = bytes(range(256)) * 2000

        async def feed(pipe):
            for at in range(0, len(body), 4096):
                await pipe.feed(body[at : at + 4096])
            await pipe.feed(b"")
            pipe.finish()

        got = self.read_all(feed)
        assert [len(part) for part in got] == [1, 7, 100_000, len(body) - 100_008]
        assert b"".join(got) == body

    def test_end_stays_the_end(self):
        async def feed(pipe):
            await pipe.feed(b"abc")
            pipe.finish()

        assert self.read_all(feed, sizes=(10, 10, -1)) == [b"abc", b"", b""]

    def test_a_silent_writer_is_an_end(self):
        async def main():
            pipe = BodyPipe(0.05)
            await pipe.feed(b"abc")
            return await asyncio.to_thread(pipe.reader().read, 10)

        assert asyncio.run(main()) == b"abc"

    def test_an_error_reaches_the_reader(self):
        async def feed(pipe):
            await pipe.feed(b"abc")
            pipe.finish(TooLarge("too much"))

        with pytest.raises(TooLarge):
            self.read_all(feed, sizes=(10,))

    def test_is_bounded(self):
        async def main():
            pipe = BodyPipe(1.0)
            feeding = [asyncio.create_task(pipe.feed(bytes(1000))) for _ in range(50)]
            await asyncio.sleep(0.05)
            assert sum(task.done() for task in feeding) == 16
            for task in feeding:
                task.cancel()

        asyncio.run(main())


class TestUploads:
    def test_arrives_whole(self):
        bundles = BundlesDouble()
        assert upload(pieces(), bundles).name == "acme.tiny"
        assert bundles.streams == [SEAL]

    def test_disconnect_is_a_short_read(self):
        bundles = BundlesDouble()
        with pytest.raises(SealTruncated):
            upload(pieces(SEAL[:100_000], error=ClientDisconnect()), bundles)
        assert bundles.streams == [SEAL[:100_000]]

    def test_an_error_of_the_server_is_a_short_read(self):
        with pytest.raises(SealTruncated):
            upload(pieces(SEAL[:100_000], error=RuntimeError("broken")))

    def test_standing_still_is_a_short_read(self):
        async def stuck():
            yield SEAL[:1000]
            await asyncio.sleep(60)

        with pytest.raises(SealTruncated):
            upload(stuck(), upload_idle_s=0.05)

    def test_too_large(self):
        with pytest.raises(TooLarge):
            upload(pieces(), max_bundle_bytes=100_000)

    def test_refusal_stops_the_reading(self):
        bundles, taken = BundlesDouble(), []
        bundles.refuse = SealTruncated("no")

        async def endless():
            while True:
                taken.append(1)
                yield bytes(10_000)

        with pytest.raises(SealTruncated):
            upload(endless(), bundles)
        assert len(taken) < 1000

    def test_cancelled_request_frees_the_thread(self):
        bundles = BundlesDouble()

        async def main():
            fed = asyncio.Event()

            async def stuck():
                yield SEAL[:1000]
                fed.set()
                await asyncio.sleep(60)

            uploads = Uploads(bundles, ApiSettings(max_uploads=1))
            task = asyncio.create_task(uploads.accept(stuck(), EVERYTHING))
            await fed.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: bundles.streams)
            assert bundles.streams == [SEAL[:1000]]
            assert (await uploads.accept(pieces(), EVERYTHING)).name == "acme.tiny"

        asyncio.run(main())

    def test_no_more_than_may_run(self):
        async def test(uploads):
            running = [begin(uploads, "alice"), begin(uploads, "bob")]
            await asyncio.sleep(0.05)
            with pytest.raises(QueueFull, match="2 uploads are running") as refusal:
                await begin(uploads, "carol")
            assert refusal.value.retry_after == 5.0
            return running

        self.play(2, test)

    def test_no_token_has_all_places(self):
        async def test(uploads):
            running = [begin(uploads, "alice") for _ in range(3)]
            await asyncio.sleep(0.05)
            with pytest.raises(QueueFull, match="3 uploads of this token"):
                await begin(uploads, "alice")
            return [*running, begin(uploads, "bob")]

        self.play(4, test)

    def play(self, places, test):
        """Run a test whose uploads stand still until it returns them; afterwards there is room again."""
        gate = threading.Event()

        class Slow(BundlesDouble):
            def accept(self, stream, publisher):
                gate.wait(60)
                return super().accept(stream, publisher)

        async def main():
            uploads = Uploads(Slow(), ApiSettings(max_uploads=places))
            running = await test(uploads)
            gate.set()
            assert [entry.name for entry in await asyncio.gather(*running)] == ["acme.tiny"] * len(running)
            assert (await begin(uploads, "alice")).name == "acme.tiny"

        asyncio.run(main())


def begin(uploads, token):
    """An upload under way."""
    return asyncio.create_task(uploads.accept(pieces(), replace(EVERYTHING, id=token)))
