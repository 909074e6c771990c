"""The query sequences of the classic routing tasks. The seed picks one: game number seed modulo their
count."""

from __future__ import annotations

from inferencegym.models.routing import Category, ModelChoice
from simulator.routing.classic import ClassicGame, ClassicQuery

__all__ = ["CATEGORY_OF", "CLASSIC_GAMES", "LARGE_FEE"]

LARGE_FEE = 0.2
"""What task 2 subtracts from a step in which the large model ran."""

S, M, L = ModelChoice.SMALL, ModelChoice.MEDIUM, ModelChoice.LARGE

_CAPITAL = ClassicQuery("capital", "What is the capital of Portugal?", S)
_BOILING = ClassicQuery("boiling", "At how many degrees Celsius does water boil at sea level?", S)
_GREETING = ClassicQuery("greeting", "Write one friendly line to welcome a new colleague.", S)
_SUMMARY = ClassicQuery("summary", "Name the three main causes of the First World War in a sentence each.", M)
_SQL = ClassicQuery("sql", "Write an SQL query for the second highest salary of each department.", M)
_TRANSLATE = ClassicQuery(
    "translate", "Translate 'the early bird catches the worm' into idiomatic German.", M
)
_POLICY = ClassicQuery(
    "policy", "How many days do our customers have to return a damaged item?", M, in_kb=True
)
_MANUAL = ClassicQuery(
    "manual", "Which error code does our pump X3 show when its filter is blocked?", L, in_kb=True
)
_PROOF = ClassicQuery("proof", "Prove that there are infinitely many primes of the form 4k + 3.", L)
_RACE = ClassicQuery("race", "Find the race condition in this lock-free queue and repair it.", L)

CATEGORY_OF: dict[str, Category] = {
    "capital": "knowledge",
    "boiling": "science",
    "greeting": "instruction",
    "summary": "knowledge",
    "sql": "code",
    "translate": "multilingual",
    "policy": "knowledge",
    "manual": "instruction",
    "proof": "maths",
    "race": "code",
}

CLASSIC_GAMES: dict[str, tuple[ClassicGame, ...]] = {
    "task_1": (
        ClassicGame((_CAPITAL,), (0.4, 0.4)),
        ClassicGame((_BOILING,), (1.4, 1.2)),
        ClassicGame((_SUMMARY,), (1.5, 0.6)),
        ClassicGame((_SQL,), (0.7, 0.6)),
        ClassicGame((_PROOF,), (0.5, 0.4)),
        ClassicGame((_POLICY,), (0.9, 0.8)),
        ClassicGame((_CAPITAL,), (0.9, 0.8), cached=frozenset({"capital"})),
    ),
    "task_2": tuple(
        ClassicGame(queries, carbon, large_fee=LARGE_FEE)
        for queries, carbon in (
            ((_CAPITAL, _SQL, _SUMMARY), (0.5, 0.6, 0.7, 0.6, 0.5, 0.4)),
            ((_TRANSLATE, _BOILING, _MANUAL), (1.2, 1.1, 0.9, 0.8, 0.7, 0.6)),
            ((_SUMMARY, _PROOF, _GREETING), (0.6, 0.5, 0.3, 0.4, 0.8, 1.2)),
            ((_BOILING, _POLICY, _TRANSLATE), (1.3, 1.3, 1.5, 1.4, 0.9, 0.5)),
        )
    ),
    "task_3": (
        ClassicGame(
            (_CAPITAL, _SQL, _POLICY, _SQL, _PROOF),
            (0.6, 0.8, 1.0, 1.3, 1.5, 0.2, 0.3, 0.5, 0.6, 0.6),
        ),
        ClassicGame(
            (_SUMMARY, _BOILING, _SUMMARY, _MANUAL, _BOILING),
            (1.4, 0.8, 0.9, 1.1, 1.2, 1.0, 0.9, 0.8, 0.7, 0.6),
        ),
        ClassicGame(
            (_RACE, _RACE, _GREETING, _TRANSLATE, _POLICY),
            (0.9, 0.5, 0.4, 0.3, 0.3, 0.5, 0.8, 1.1, 1.2, 1.2),
        ),
        ClassicGame(
            (_TRANSLATE, _CAPITAL, _TRANSLATE, _SUMMARY, _GREETING),
            (0.5, 0.7, 1.1, 1.5, 1.6, 0.8, 0.4, 0.4, 0.5, 0.7),
            cached=frozenset({"capital"}),
        ),
    ),
}
