"""Transformers: encoder and decoder layers, stacks of them, and both together.

Source: Vaswani et al., "Attention is all you need" (2017); norm_first: Xiong et al., "On layer
normalization in the transformer architecture" (2020).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from ag_visual.dispatch.table import functions as F
from ag_visual.nn import functional, init
from ag_visual.nn.containers import ModuleList
from ag_visual.nn.dropout import Dropout
from ag_visual.nn.linear import Linear
from ag_visual.nn.module import Module
from ag_visual.nn.multihead import MultiheadAttention
from ag_visual.nn.normalization import LayerNorm


def _get_activation_fn(activation: str | Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(functional, activation)  # type: ignore[no-any-return]


def _get_clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class _Layer(Module):
    """Base of the layers: attention, and two linear maps around an activation."""

    attentions: tuple[str, ...]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[..., Any] = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        for name in self.attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **kind
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **kind)
        self.norm_first = norm_first
        parts = range(1, len(self.attentions) + 2)
        for i in parts:
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kind))
        for i in parts:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    def _around(self, x: Any, number: int, block: Callable[[Any], Any]) -> Any:
        """x plus a block of it, normalized before or after."""
        norm = getattr(self, f"norm{number}")
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    # The blocks have torch's names: subclasses replace them, and call them.
    def _sa_block(
        self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Any:
        return self.dropout1(_seen(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x: Any) -> Any:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return getattr(self, f"dropout{len(self.attentions) + 1}")(x)


def _seen(attention: Any, x: Any, memory: Any, mask: Any, padding: Any, causal: Any) -> Any:
    """What a layer's attention gives for x, without its weights."""
    return attention(
        *(x, memory, memory),
        attn_mask=mask,
        key_padding_mask=padding,
        need_weights=False,
        is_causal=causal,
    )[0]


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection and a norm."""

    attentions = ("self_attn",)

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        def attend(x: Any) -> Any:
            return self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal)

        return self._around(self._around(src, 1, attend), 2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward network."""

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        def attend(x: Any) -> Any:
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def look(x: Any) -> Any:
            padding = memory_key_padding_mask
            return self._mha_block(x, memory, memory_mask, padding, memory_is_causal)

        x = self._around(self._around(tgt, 1, attend), 2, look)
        return self._around(x, 3, self._ff_block)

    def _mha_block(
        self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Any:
        found = _seen(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal)
        return self.dropout2(found)


def _causal(mask: Any, is_causal: bool | None) -> bool:
    """Whether a mask is the causal one, where the caller doesn't say it."""
    if is_causal is not None or mask is None or mask.dim() != 2:
        return bool(is_causal)
    rows, columns = mask.shape
    if rows != columns:
        return False
    expected = Transformer.generate_square_subsequent_mask(rows, mask.device, mask.dtype)
    return bool((mask == expected).all())


class TransformerEncoder(Module):
    """A stack of copies of one encoder layer."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Any:
        causal = _causal(mask, is_causal)
        for layer in self.layers:
            src = layer(
                src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal
            )
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of copies of one decoder layer."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        causal = _causal(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[..., Any] = functional.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        args = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        args += (batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kind)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*args, **kind), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*args, **kind), num_decoder_layers, norm()
        )
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[dim] != tgt.shape[dim]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """-inf above the diagonal, 0 elsewhere: no position sees those after it."""
        return F["full"]((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)
