"""What users write today: an aiohttp server around PyTorch (NumPy where there is no PyTorch).

    python aiohttp_torch.py
Takes POST /?n=N: two N x N f32 matrices; answers their product. Prints "listening on ADDRESS".
"""

import socket

import numpy as np
from aiohttp import web

try:
    import torch

    DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
except ImportError:
    torch = None
try:
    import uvloop

    uvloop.install()
except ImportError:
    pass


def multiply(body, n):
    both = np.frombuffer(body, np.float32).reshape(2, n, n)
    if torch is None:
        return (both[0] @ both[1]).tobytes()
    with torch.inference_mode():
        operands = torch.from_numpy(both.copy()).to(DEVICE)
        return (operands[0] @ operands[1]).cpu().numpy().tobytes()


async def product(request):
    body = await request.read()
    return web.Response(body=multiply(body, int(request.query["n"])))


def main():
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/", product)

    async def started(_):
        print(f"listening on 127.0.0.1:{port}", flush=True)

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    multiply(bytes(2 * 64 * 64 * 4), 64)
    app.on_startup.append(started)
    web.run_app(app, sock=listener, print=None, access_log=None)


if __name__ == "__main__":
    main()
