"""The bare side: `python echo.py PORT ANSWER_BYTES` reads a body and answers with that many bytes."""

import sys

import uvicorn


def main() -> None:
    """Serve until terminated."""
    port, size = int(sys.argv[1]), int(sys.argv[2])
    start = {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"application/octet-stream"), (b"content-length", str(size).encode())],
    }
    end = {"type": "http.response.body", "body": bytes(size)}

    async def app(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await send(start)
        await send(end)

    uvicorn.run(app, host="127.0.0.1", port=port, http="httptools", loop="uvloop", lifespan="off", access_log=False)


if __name__ == "__main__":
    main()
