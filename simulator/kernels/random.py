"""NumPy's generator in compiled code: the numbers of ``numpy.random.default_rng(seed)``, one by one.

PCG64 seeded by SeedSequence, and the distributions that a workload draws from, after NumPy's documented
algorithms. NumPy keeps its bit generators for ever and its distributions within a release; whether this
module and the installed NumPy agree is checked where it is used
(:mod:`simulator.serving.traffic.vector_traffic`).

The state of a generator is an array of six uint64: state and increment (high, low), whether half of a draw is
kept for the next 32-bit one, and that half.
"""

from __future__ import annotations

from math import exp, floor, log, log1p, sqrt
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

__all__ = ["STATE_SIZE", "Ziggurat", "bounded", "normal", "poisson", "seed_state", "uniform"]

STATE_SIZE = 6
_HIGH, _LOW, _INC_HIGH, _INC_LOW, _HAS_HALF, _HALF = range(STATE_SIZE)

_U = np.uint64
_MASK32 = _U(0xFFFFFFFF)
_ONE, _HALF_BITS = _U(1), _U(32)

# PCG64 (O'Neill, 2014): 128-bit multiplier, and the shifts of its output function XSL-RR.
_MULT_HIGH, _MULT_LOW = _U(0x2360ED051FC65DA4), _U(0x4385DF649FCCF645)
_ROTATE_BITS, _WORD_BITS = _U(58), _U(63)
_DOUBLE_BITS, _DOUBLE_UNIT = _U(11), 2.0**-53

# numpy.random.SeedSequence: constants of its two hashes and its mixing function.
_INIT_A, _MULT_A = _U(0x43B0D7E5), _U(0x931E8875)
_INIT_B, _MULT_B = _U(0x8B51F9DD), _U(0x58F38DED)
_MIX_LEFT, _MIX_RIGHT = _U(0xCA01F9DD), _U(0x4973F715)
_XSHIFT = _U(16)
_POOL = 4

# Ziggurat of the normal distribution (Marsaglia and Tsang, 2000): 256 layers, where its tail begins.
_LAYER_MASK, _LAYER_BITS = _U(0xFF), _U(8)
_MANTISSA = _U(0x000FFFFFFFFFFFFF)
_TAIL, _TAIL_INVERSE = 3.6541528853610087963519472518, 0.27366123732975827203338247596

_LOG_2PI = 1.8378770664093453
_STIRLING = (
    8.333333333333333e-02,
    -2.777777777777778e-03,
    7.936507936507937e-04,
    -5.952380952380952e-04,
    8.417508417508418e-04,
    -1.917526917526918e-03,
    6.410256410256410e-03,
    -2.955065359477124e-02,
    1.796443723688307e-01,
    -1.39243221690590e00,
)
"""Coefficients of the asymptotic series of the log-gamma function."""


class Ziggurat(NamedTuple):
    """Tables of the normal distribution's layers."""

    accept_below: npt.NDArray[np.uint64]
    width: npt.NDArray[np.float64]
    density: npt.NDArray[np.float64]

    @classmethod
    def load(cls) -> Ziggurat:
        """NumPy's own tables, which numba carries along. Raises ImportError when it does no longer."""
        from numba.np.random import _constants  # pyright: ignore[reportMissingTypeStubs]

        tables = cast("Any", _constants)
        return cls(tables.ki_double, tables.wi_double, tables.fi_double)


def hash_word(word: Any, constant: Any, multiplier: Any) -> Any:
    """A step of SeedSequence's hash; the caller moves the constant on."""
    word = (word ^ constant) & _MASK32
    word = (word * ((constant * multiplier) & _MASK32)) & _MASK32
    return word ^ (word >> _XSHIFT)


def seed_state(seed: int, state: Any) -> None:
    """Set a generator to ``default_rng(seed)``, for 0 <= seed < 2**64."""
    entropy = _U(seed)
    constant = _INIT_A
    pool0 = hash_word(entropy & _MASK32, constant, _MULT_A)
    constant = (constant * _MULT_A) & _MASK32
    pool1 = hash_word(entropy >> _HALF_BITS, constant, _MULT_A)
    constant = (constant * _MULT_A) & _MASK32
    pool2 = hash_word(_U(0), constant, _MULT_A)
    constant = (constant * _MULT_A) & _MASK32
    pool3 = hash_word(_U(0), constant, _MULT_A)
    constant = (constant * _MULT_A) & _MASK32
    # The state's six words hold the pool while it is mixed.
    state[0] = pool0
    state[1] = pool1
    state[2] = pool2
    state[3] = pool3
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                hashed = hash_word(state[source], constant, _MULT_A)
                constant = (constant * _MULT_A) & _MASK32
                mixed = (_MIX_LEFT * state[target] - _MIX_RIGHT * hashed) & _MASK32
                state[target] = mixed ^ (mixed >> _XSHIFT)
    pool0, pool1, pool2, pool3 = state[0], state[1], state[2], state[3]
    constant = _INIT_B
    word = _U(0)
    for index in range(2 * _POOL):
        place = index % _POOL
        source_word = pool0 if place == 0 else (pool1 if place == 1 else (pool2 if place == 2 else pool3))
        hashed = hash_word(source_word, constant, _MULT_B)
        constant = (constant * _MULT_B) & _MASK32
        if index % 2 == 0:
            word = hashed
        else:
            state[index // 2] = word | (hashed << _HALF_BITS)
    start_high, start_low = state[_HIGH], state[_LOW]
    state[_INC_HIGH] = (state[_INC_HIGH] << _ONE) | (state[_INC_LOW] >> _WORD_BITS)
    state[_INC_LOW] = (state[_INC_LOW] << _ONE) | _ONE
    state[_HIGH] = _U(0)
    state[_LOW] = _U(0)
    step(state)
    low = state[_LOW] + start_low
    state[_HIGH] = state[_HIGH] + start_high + (_ONE if low < start_low else _U(0))
    state[_LOW] = low
    step(state)
    state[_HAS_HALF] = _U(0)
    state[_HALF] = _U(0)


def step(state: Any) -> None:
    """state = state * multiplier + increment, modulo 2**128."""
    high, low = state[_HIGH], state[_LOW]
    # High word of low * _MULT_LOW, from four products of 32-bit halves.
    a0, a1 = low & _MASK32, low >> _HALF_BITS
    b0, b1 = _MULT_LOW & _MASK32, _MULT_LOW >> _HALF_BITS
    p01, p10 = a0 * b1, a1 * b0
    middle = ((a0 * b0) >> _HALF_BITS) + (p01 & _MASK32) + (p10 & _MASK32)
    carry = a1 * b1 + (p01 >> _HALF_BITS) + (p10 >> _HALF_BITS) + (middle >> _HALF_BITS)
    product_low = low * _MULT_LOW
    product_high = carry + high * _MULT_LOW + low * _MULT_HIGH
    new_low = product_low + state[_INC_LOW]
    state[_HIGH] = product_high + state[_INC_HIGH] + (_ONE if new_low < product_low else _U(0))
    state[_LOW] = new_low


def next_word(state: Any) -> Any:
    """64 random bits."""
    step(state)
    mixed, turn = state[_HIGH] ^ state[_LOW], state[_HIGH] >> _ROTATE_BITS
    return (mixed >> turn) | (mixed << ((_U(64) - turn) & _WORD_BITS))


def next_half(state: Any) -> Any:
    """32 random bits; every second time the half that was kept."""
    if state[_HAS_HALF] != _U(0):
        state[_HAS_HALF] = _U(0)
        return state[_HALF]
    word = next_word(state)
    state[_HAS_HALF] = _ONE
    state[_HALF] = word >> _HALF_BITS
    return word & _MASK32


def uniform(state: Any) -> float:
    """``Generator.random()``."""
    return (next_word(state) >> _DOUBLE_BITS) * _DOUBLE_UNIT


def bounded(state: Any, low: int, high: int) -> int:
    """``Generator.integers(low, high, endpoint=True)``, for ranges below 2**32 (Lemire, 2019)."""
    if low == high:
        return low
    count = _U(high - low + 1)
    product = next_half(state) * count
    if (product & _MASK32) < count:
        threshold = (_MASK32 - (count - _ONE)) % count
        while (product & _MASK32) < threshold:
            product = next_half(state) * count
    return low + int(product >> _HALF_BITS)


def normal(state: Any, tables: Any) -> float:
    """``Generator.standard_normal()``."""
    while True:
        word = next_word(state)
        layer = word & _LAYER_MASK
        word >>= _LAYER_BITS
        negative = (word & _ONE) != _U(0)
        place = (word >> _ONE) & _MANTISSA
        value = np.int64(place) * tables.width[layer]
        if negative:
            value = -value
        if place < tables.accept_below[layer]:
            return value
        if layer == _U(0):
            while True:
                beyond = -_TAIL_INVERSE * log1p(-uniform(state))
                height = -log1p(-uniform(state))
                if height + height > beyond * beyond:
                    tail = _TAIL + beyond
                    return -tail if ((place >> _LAYER_BITS) & _ONE) != _U(0) else tail
        above, here = tables.density[layer - _ONE], tables.density[layer]
        if (above - here) * uniform(state) + here < exp(-0.5 * value * value):
            return value


def poisson(state: Any, mean: float) -> int:
    """``Generator.poisson(mean)``: multiplication below 10, transformed rejection (Hörmann, 1993) above."""
    if mean == 0.0:
        return 0
    if mean < 10.0:
        limit = exp(-mean)
        count, product = 0, uniform(state)
        while product > limit:
            count += 1
            product *= uniform(state)
        return count
    log_mean = log(mean)
    b = 0.931 + 2.53 * sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = uniform(state) - 0.5
        v = uniform(state)
        us = 0.5 - abs(u)
        count = floor((2 * a / us + b) * u + mean + 0.43)
        if us >= 0.07 and v <= v_r:
            return count
        if count < 0 or (us < 0.013 and v > us):
            continue
        left = log(v) + log(inverse_alpha) - log(a / (us * us) + b)
        if left <= -mean + count * log_mean - log_factorial(count):
            return count


def log_factorial(count: int) -> float:
    """log(count!) as NumPy's ``random_loggam(count + 1)``."""
    x = count + 1.0
    if x in (1.0, 2.0):
        return 0.0
    shift = int(7.0 - x) if x < 7.0 else 0
    x0 = x + shift
    inverse = (1.0 / x0) * (1.0 / x0)
    series = _STIRLING[9]
    for index in range(8, -1, -1):
        series *= inverse
        series += _STIRLING[index]
    value = series / x0 + 0.5 * _LOG_2PI + (x0 - 0.5) * log(x0) - x0
    for _ in range(shift):
        value -= log(x0 - 1.0)
        x0 -= 1.0
    return value
