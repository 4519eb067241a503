"""Products of PyTorch with gradients, and linear layers whose weights stay on a daemon. Needs PyTorch 2.4 or newer.

>>> from gemmd_client import Client
>>> from gemmd_client.torch import convert, matmul
>>> client = Client("http://127.0.0.1:8080")
>>> matmul(a, b, client).sum().backward()
>>> print(convert(model.eval(), client, "model"))

Both are operators of torch.library, ``gemmd::matmul`` and ``gemmd::linear``, so that torch.compile keeps them in its
graph. Their types are float64, float32, float16 and bfloat16. Tensors on a GPU are copied to the host for a request,
and the result is copied to their device.
"""

from __future__ import annotations

import itertools
import weakref
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import torch

from .arrays import as_matrices, without_added
from .client import Client
from .errors import NoRoom
from .tensors import Tensor

_TYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float64: np.dtype(np.float64), torch.float32: np.dtype(np.float32), torch.float16: np.dtype(np.float16),
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16)}

# The arguments of operators are tensors, numbers and strings. These are the clients and the resident tensors that
# strings stand for.
_numbers = itertools.count()
_named: weakref.WeakValueDictionary[str, Client | Tensor] = weakref.WeakValueDictionary()
_names: weakref.WeakKeyDictionary[Client, str] = weakref.WeakKeyDictionary()


def _name(url: str, thing: Client | Tensor) -> str:
    name = f"{url}#{next(_numbers)}"
    _named[name] = thing
    return name


@torch.compiler.assume_constant_result
def _name_of(client: Client) -> str:
    """Returns the string that stands for a client in operators, always the same one."""
    if client not in _names:
        _names[client] = _name(client.url, client)
    return _names[client]


def _thing(name: str) -> Any:
    found = _named.get(name)
    if found is None:
        raise RuntimeError(f"the client or the resident tensor {name} of this operator has been deleted in the program")
    return found


@torch.library.custom_op("gemmd::matmul", mutates_args=(), schema="(Tensor a, Tensor b, str client) -> Tensor")
def _matmul(a: torch.Tensor, b: torch.Tensor, client: str) -> torch.Tensor:
    """Two matrices, or two stacks of as many."""
    return _thing(client).gemm(a.detach(), b.detach())


@_matmul.register_fake
def _matmul_shape(a: torch.Tensor, b: torch.Tensor, client: str) -> torch.Tensor:
    return a.new_empty((*a.shape[:-1], b.shape[-1]))


def _matmul_context(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, str], output: torch.Tensor) -> None:
    a, b, ctx.client = inputs
    ctx.save_for_backward(a, b)


def _matmul_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    a, b = ctx.saved_tensors
    return (_matmul(grad, b.mT, ctx.client) if ctx.needs_input_grad[0] else None,
            _matmul(a.mT, grad, ctx.client) if ctx.needs_input_grad[1] else None, None)


_matmul.register_autograd(_matmul_backward, setup_context=_matmul_context)


@torch.library.custom_op("gemmd::linear", mutates_args=(),
                         schema="(Tensor x, Tensor? bias, str weight, int columns, bool turned) -> Tensor")
def _linear(x: torch.Tensor, bias: torch.Tensor | None, weight: str, columns: int, turned: bool) -> torch.Tensor:
    """The product of a matrix with a resident tensor or its transposed."""
    tensor = _thing(weight)
    return tensor._client.gemm(x.detach(), tensor.T if turned else tensor,
                               bias=None if bias is None else bias.detach())


@_linear.register_fake
def _linear_shape(x: torch.Tensor, bias: torch.Tensor | None, weight: str, columns: int, turned: bool) -> torch.Tensor:
    return x.new_empty((x.shape[0], columns))


def _linear_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, _, ctx.weight, _, ctx.turned = inputs
    ctx.columns = x.shape[1]


def _linear_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return (_linear(grad, None, ctx.weight, ctx.columns, not ctx.turned) if ctx.needs_input_grad[0] else None,
            grad.sum(0) if ctx.needs_input_grad[1] else None, None, None, None)


_linear.register_autograd(_linear_backward, setup_context=_linear_context)


def matmul(a: torch.Tensor, b: torch.Tensor, client: Client) -> torch.Tensor:
    """Returns a @ b, computed by the daemon of `client`, with the shapes of torch.matmul. Both gradients are products
    that the daemon computes: grad @ b.mT and a.mT @ grad.

    Raises:
        TypeError: the types differ, or are not float64, float32, float16 or bfloat16.
        ValueError: the shapes do not fit.
        GemmdError: one of its subclasses, by the error code of the daemon.
    """
    a, b, row, column = as_matrices(a, b, _TYPES, "to")
    name = _name_of(client)
    if b.ndim == 2:  # The rows of all matrices of a meet one b.
        product = _matmul(a.flatten(0, -2), b, name).reshape(*a.shape[:-1], b.shape[-1])
    else:
        try:
            leads = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except RuntimeError:
            raise ValueError(f"the leading dimensions of a, {tuple(a.shape[:-2])}, and of b, {tuple(b.shape[:-2])}, "
                             "cannot be broadcast to each other") from None
        stacks = [each.expand(*leads, *each.shape[-2:]).flatten(0, -3) for each in (a, b)]
        product = _matmul(*stacks, name).reshape(*leads, a.shape[-2], b.shape[-1])
    trimmed: torch.Tensor = without_added(product, row, column)
    return trimmed


class Linear(torch.nn.Module):
    """``x @ weight.T + bias`` like torch.nn.Linear, where ``weight`` stays on a daemon. The gradients of ``x`` and
    ``bias`` are computed. The weight is a constant: it has no gradient, and is not in parameters() and state_dict().

    Args:
        weight: a resident Tensor of the shape (out_features, in_features), of float64, float32, float16 or bfloat16.
        bias: a tensor of the shape (out_features,), for example a torch.nn.Parameter; default: none.

    Raises:
        TypeError: the weight has another type.
        ValueError: the weight is no matrix, or the bias has another shape.
    """

    def __init__(self, weight: Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__()
        if weight.format is not None or weight.dtype not in _TYPES.values():
            raise TypeError(f"the weight {weight.name} has the type {weight.format or weight.dtype}; it must have one "
                            f"of {', '.join(map(str, _TYPES.values()))}")
        if weight.ndim != 2:
            raise ValueError(f"the weight {weight.name} has {weight.ndim} dimensions; it must have two")
        self.weight = weight
        self.out_features, self.in_features = weight.shape
        if bias is not None and bias.shape != (self.out_features,):
            raise ValueError(f"bias has the shape {tuple(bias.shape)}; it must have {(self.out_features,)}")
        if isinstance(bias, torch.nn.Parameter):
            self.register_parameter("bias", bias)
        else:
            self.register_buffer("bias", bias)
        self._prepare()

    def _prepare(self) -> None:
        self._name = _name(self.weight._client.url, self.weight)
        self._dtype = next(known for known, dtype in _TYPES.items() if dtype == self.weight.dtype)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._prepare()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the product for ``x`` of the shape (..., in_features) and the type of the weight. TypeError: ``x``
        has another type; ValueError: it has another shape; GemmdError: one of its subclasses, such as NotFound if the
        weight was deleted."""
        if x.dtype != self._dtype:
            raise TypeError(f"x has the type {x.dtype}, and the weight {self.weight.name} has {self._dtype}; convert x "
                            "with to()")
        if not x.ndim or x.shape[-1] != self.in_features:
            raise ValueError(f"x has the shape {tuple(x.shape)}; it must have (..., {self.in_features})")
        rows = torch.atleast_2d(x).flatten(0, -2)
        product = _linear(rows, self.bias, self._name, self.out_features, True)
        return product.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
                f"weight={self.weight.name!r} of {self.weight._client.url}")


@dataclass
class Conversion:
    """What convert() did. Printed, it is a line for each layer.

    Attributes:
        model: the module, which is another one only if it was a linear layer itself.
        replaced: the resident weights, by the paths of their layers in the module.
        left: why a layer with a matrix of weights stays on the host, by the path of the layer.
    """

    model: torch.nn.Module
    replaced: dict[str, Tensor] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{path or 'the module'}: {weight.nbytes:,} bytes on the daemon, as {weight.name}"
                 for path, weight in self.replaced.items()]
        lines += [f"{path or 'the module'}: left, because {reason}" for path, reason in self.left.items()]
        return "\n".join(lines or ["there is no layer with a matrix of weights"])


def convert(model: torch.nn.Module, client: Client, name: str) -> Conversion:
    """Replaces the linear layers of a module, in place, by those of this package, and says which layers it left.
    Nothing is replaced if an upload fails for another reason than room on the device.

    A layer that is in training mode and whose weight requires a gradient is left, because weights on the daemon get
    none: call model.eval() or model.requires_grad_(False) first. A layer that is used in several places stays one.

    Args:
        model: its layers of the class torch.nn.Linear are replaced, and no subclasses.
        client: of the daemon that keeps the weights.
        name: what the names of the weights on the daemon begin with; the path of the layer follows.

    Raises:
        GemmdError: one of its subclasses, by the error code of the daemon.
    """
    conversion = Conversion(model)
    found: dict[torch.nn.Module, Linear] = {}
    fast = [path for path, module in model.named_modules() if isinstance(module, torch.nn.TransformerEncoderLayer)]
    for path, module in model.named_modules():
        reason = _reason(module, any(path.startswith(f"{layer}." if layer else "") for layer in fast))
        if reason is None:
            try:
                weight = client.put(f"{name}.{path}" if path else name, module.weight.detach())
                conversion.replaced[path] = weight
                found[module] = Linear(weight, module.bias)
                found[module].train(module.training)
                continue
            except NoRoom as error:
                reason = str(error)
        if reason:
            conversion.left[path] = reason
    for parent in list(model.modules()):
        for child, module in list(parent._modules.items()):
            if module in found:
                setattr(parent, child, found[module])
    conversion.model = found.get(model, model)
    return conversion


def _reason(module: torch.nn.Module, is_fast: bool) -> str | None:
    """Returns why a layer is left; "" for one without a matrix of weights; None for one that can be replaced."""
    if all(weight.ndim < 2 for weight in module.parameters(recurse=False)):
        return ""
    if type(module) is not torch.nn.Linear:
        return f"{type(module).__name__} is no torch.nn.Linear"
    if is_fast:
        return "torch.nn.TransformerEncoderLayer reads the weights of its layers"
    if module.weight.dtype not in _TYPES:
        return f"its weight has the type {module.weight.dtype}"
    if module.training and module.weight.requires_grad:
        return "its weight is trained, and weights on the daemon get no gradient"
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
        return "it has hooks"
    return None
