"""gemmd_client.torch with the real PyTorch: gradients, graphs that torch.compile keeps, and models whose linear layers
are on a daemon."""

import contextlib
import copy
import gc
import io
import pickle

import pytest

from test_python_client import client, transport  # noqa: F401 (fixtures)
from test_python_package import readme_blocks

from gemmd_client import Client
from gemmd_client.errors import NotFound

torch = pytest.importorskip("torch")
gemmd = pytest.importorskip("gemmd_client.torch")

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture
def prefix(client, request):
    """A name that no other test has; the tensors that begin with it are deleted in the end."""
    name = request.node.name.translate(str.maketrans("[]", "--"))[:100]
    yield name
    for tensor in client.tensors():
        if tensor.name.startswith(name):
            client.delete(tensor)


def whole(*shape, dtype=torch.float64, grad=False):
    """Numbers whose products and sums are exact in every type."""
    return torch.randint(-2, 3, shape).to(dtype).requires_grad_(grad)


SHAPES = [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
          ((2, 3, 4), (2, 4, 5)), ((6, 1, 3, 4), (2, 4, 5)), ((2, 3, 4), (4,)), ((0, 4), (4, 5)), ((3, 0), (0, 5))]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("a,b", SHAPES)
def test_products_and_gradients_are_those_of_torch(client, a, b, dtype):
    a, b = whole(*a, dtype=dtype, grad=True), whole(*b, dtype=dtype, grad=True)
    found, wanted = gemmd.matmul(a, b, client), torch.matmul(a, b)
    assert found.dtype == dtype and torch.equal(found, wanted)
    weights = whole(*wanted.shape, dtype=dtype)
    for one, other in zip(torch.autograd.grad(found, (a, b), weights), torch.autograd.grad(wanted, (a, b), weights)):
        assert torch.equal(one, other)


def test_gradients_of_gradients(client):
    a, b = torch.rand(2, 3, dtype=torch.float64, requires_grad=True), torch.rand(3, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *each: gemmd.matmul(*each, client), (a, b.requires_grad_()))
    assert torch.autograd.gradgradcheck(lambda *each: gemmd.matmul(*each, client), (a, b))


def test_the_operators_are_as_torch_wants_them(client, prefix):
    name = gemmd._name_of(client)
    rand = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(torch.ops.gemmd.matmul.default, (rand, torch.rand(3, 5, dtype=torch.float64), name))
    layer = gemmd.Linear(client.put(prefix, torch.rand(5, 3, dtype=torch.float64)))
    for bias in (None, torch.rand(5, dtype=torch.float64, requires_grad=True)):
        torch.library.opcheck(torch.ops.gemmd.linear.default, (rand, bias, layer._name, 5, True))


class Model(torch.nn.Module):
    """With what is replaced, and what is not."""

    def __init__(self, dtype):
        super().__init__()
        self.embed = torch.nn.Embedding(7, 4)
        self.first = torch.nn.Linear(4, 6)
        self.again = self.first
        self.body = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(6, 4, bias=False), torch.nn.LayerNorm(4))
        self.hooked = torch.nn.Linear(4, 2)
        self.hooked.register_forward_hook(lambda *_: None)
        self.to(dtype)

    def forward(self, x):
        return self.hooked(self.body(self.first(x) + self.again(x)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_model_on_the_daemon(client, prefix, dtype):
    model = Model(dtype).eval()
    reference = copy.deepcopy(model)
    conversion = gemmd.convert(model, client, prefix)
    assert conversion.model is model and model.again is model.first
    assert sorted(conversion.replaced) == ["body.1", "first"] and sorted(conversion.left) == ["embed", "hooked"]
    assert conversion.replaced["first"].name == f"{prefix}.first" and conversion.replaced["first"].shape == (6, 4)
    assert "hooked: left, because it has hooks" in str(conversion)
    assert f"first: {24 * dtype.itemsize} bytes on the daemon, as {prefix}.first" in str(conversion)
    assert "weight" not in model.first._parameters and model.first.bias is not None
    assert prefix in repr(model)
    x = torch.rand(2, 5, 4, dtype=dtype, requires_grad=True)
    close = {torch.float64: 1e-12, torch.float32: 1e-5}[dtype]
    for module, original in ((model, reference), (copy.deepcopy(model), reference),
                             (pickle.loads(pickle.dumps(model.first)), reference.first), (model.first, reference.first)):
        for given in (x, x[0], x[0, 0], x[:, :0]):
            found, wanted = module(given), original(given)
            assert found.shape == wanted.shape and torch.allclose(found, wanted, rtol=close, atol=close)
        one, other = (torch.autograd.grad(each(x).square().sum(), x)[0] for each in (module, original))
        assert torch.allclose(one, other, rtol=close, atol=close)
    model(x).sum().backward()
    reference(x).sum().backward()
    assert torch.allclose(model.first.bias.grad, reference.first.bias.grad, rtol=close, atol=close)


def test_a_compiled_model_keeps_its_graph(client, prefix):
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 3)).double().eval()
    w = torch.rand(3, 3, dtype=torch.float64, requires_grad=True)
    reference = copy.deepcopy(model)
    gemmd.convert(model, client, prefix)
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def run(x):
        return gemmd.matmul(model(x), w, client)

    x = torch.rand(2, 5, 4, dtype=torch.float64)
    wanted = reference(x) @ w
    assert torch.allclose(torch.compile(run, backend=keep, fullgraph=True)(x), wanted)
    graph, = graphs
    called = [str(node.target) for node in graph.graph.nodes if "gemmd" in str(node.target)]
    assert called == ["gemmd.linear.default", "gemmd.linear.default", "gemmd.matmul.default"], called
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    x.requires_grad_()
    for one, other in zip(torch.autograd.grad(compiled(x).sum(), (x, w)),
                          torch.autograd.grad((reference(x) @ w).sum(), (x, w))):
        assert torch.allclose(one, other)


def test_layers_that_are_left(client, prefix):
    trained = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    trained[1].requires_grad_(False)
    conversion = gemmd.convert(trained, client, prefix)
    assert list(conversion.replaced) == ["1"] and "get no gradient" in conversion.left["0"]
    encoder = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    wanted = encoder(torch.ones(1, 3, 4))
    conversion = gemmd.convert(encoder, client, prefix)
    assert not conversion.replaced and set(conversion.left) == {"self_attn", "self_attn.out_proj", "linear1", "linear2"}
    assert torch.equal(encoder(torch.ones(1, 3, 4)), wanted)
    conversion = gemmd.convert(torch.nn.Linear(2, 2).to(torch.float8_e4m3fn).eval(), client, prefix)
    assert conversion.left == {"": "its weight has the type torch.float8_e4m3fn"}
    alone = torch.nn.Linear(2, 2).eval()
    assert isinstance(gemmd.convert(alone, client, prefix).model, gemmd.Linear)
    assert "no layer" in str(gemmd.convert(torch.nn.ReLU(), client, prefix))


def test_room_is_left_out(start):
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(1024, 1024)).eval()
    with Client(start("--tensor-bytes", "1MiB").url, transport="http") as small:
        conversion = gemmd.convert(model, small, "W")
        assert list(conversion.replaced) == ["0"] and list(conversion.left) == ["1"]
        assert isinstance(model[1], torch.nn.Linear)


@pytest.mark.parametrize("call,error,sentence", [
    (lambda client: gemmd.matmul(whole(2, 3), whole(4, 2), client), ValueError, "a has 3 columns and b has 4 rows"),
    (lambda client: gemmd.matmul(whole(2, 2), whole(2, 2, dtype=torch.float32), client), TypeError,
     "both must have one type"),
    (lambda client: gemmd.matmul(whole(2, 2).int(), whole(2, 2).int(), client), TypeError, "both must have one type"),
    (lambda client: gemmd.matmul(whole(), whole(2, 2), client), ValueError, "a has 0 dimensions"),
    (lambda client: gemmd.matmul(whole(2, 2, 3), whole(3, 3, 2), client), ValueError, "cannot be broadcast"),
])
def test_products_that_are_none(client, call, error, sentence):
    with pytest.raises(error, match=sentence):
        call(client)


def test_layers_that_are_none(client, prefix):
    weight = client.put(prefix, whole(3, 4))
    layer = gemmd.Linear(weight, whole(3))
    for x, error, sentence in ((whole(2, 3), ValueError, r"it must have \(..., 4\)"),
                               (whole(2, 4).float(), TypeError, "convert x with to")):
        with pytest.raises(error, match=sentence):
            layer(x)
    with pytest.raises(ValueError, match="bias has the shape"):
        gemmd.Linear(weight, whole(4))
    with pytest.raises(TypeError, match="it must have one of"):
        gemmd.Linear(client.put(f"{prefix}-i8", whole(3, 4, dtype=torch.int8)))
    with pytest.raises(ValueError, match="it must have two"):
        gemmd.Linear(client.put(f"{prefix}-one", whole(3)))
    client.delete(weight)
    with pytest.raises(NotFound, match=prefix):
        layer(whole(2, 4))


def test_an_operator_whose_client_has_gone():
    name = gemmd._name_of(Client("127.0.0.1:1"))
    gc.collect()  # the parts of a client refer to each other
    with pytest.raises(RuntimeError, match="127.0.0.1:1#.* has been deleted in the program"):
        torch.ops.gemmd.matmul(whole(2, 2), whole(2, 2), name)


def test_gradients_are_not_dropped_in_silence(client, prefix):
    """Where there is no path for a gradient, the error says so."""
    a = whole(3, 3, dtype=torch.float32, grad=True)
    plain = a.detach()
    weight = client.put(prefix, plain)
    for call in (lambda: client.gemm(a, plain), lambda: client.gemm(plain, a), lambda: a @ weight,
                 lambda: client.softmax(a), lambda: client.reduce(a), lambda: client.gemm_job(a, plain),
                 lambda: client.put(prefix, a)):
        with pytest.raises(TypeError, match="requires a gradient"):
            call()
    assert torch.equal(client.gemm(a.detach(), plain), plain @ plain)
    with torch.no_grad():
        assert torch.equal(client.gemm(a, plain), plain @ plain)


def test_the_program_of_the_readme(start):
    block, = [block for block in readme_blocks() if "import torch" in block]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block.replace("http://127.0.0.1:8080", start().url), {})
    assert printed.getvalue().splitlines() == [
        "0: 8,192 bytes on the daemon, as model.0", "2: 1,024 bytes on the daemon, as model.2", "torch.Size([5, 8])"]
