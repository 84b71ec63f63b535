"""Queries at random, of every kind of expression that can be written; the same for the same seed."""

from collections.abc import Iterator
from random import Random

_ORDERED = ("bigint", "double precision", "text")
_COLUMNS = {
    "bigint": ["trial", "trials"],
    "text": [
        "id",
        "name",
        "category",
        "status",
        "failed_step",
        "reason",
        "metadata_json->>'text'",
        "metadata_json->>'task'",
    ],
    "double precision": [
        "CAST(metadata_json->'scores'->>'n' AS DOUBLE PRECISION)",
        "(metadata_json->'scores'->'reward')::float",
    ],
    "boolean": ["(metadata_json->'ok')::boolean", "metadata_json ? 'task'", "metadata_json->'scores' ? 'reward'"],
    "jsonb": ["metadata_json", "metadata_json->'any'", "metadata_json->'list'", "metadata_json->'scores'"],
}
_LITERALS = {
    "bigint": ["0", "1", "2", "-3", "100", "NULL"],
    "text": ["'a'", "''", "'B'", "'it''s'", "'ä%'", "NULL"],
    "double precision": ["0.5", "2.0", "-1.25", "1e10", "NULL"],
    "boolean": ["true", "false", "NULL"],
    "jsonb": ["'{\"a\": [1, 2.0]}'::jsonb", "'[]'::jsonb", "'null'::jsonb"],
}


class Maker:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def query(self) -> str:
        return self._random.choice([self._plain, self._grouped, self._nested, self._set])()

    def _plain(self) -> str:
        kinds = [self._kind() for _ in range(3)]
        shown = ", ".join(f"{self.make(kind, 3)} AS x{number}" for number, kind in enumerate(kinds))
        tail = self._random.choice(["", " LIMIT 7", " LIMIT 5 OFFSET 3"])
        return f"SELECT id, {shown} FROM agent_runs WHERE {self.make('boolean', 2)} ORDER BY {self._order()}id{tail}"

    def _order(self) -> str:
        if self._random.random() < 0.5:
            return ""
        way = self._random.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
        return f"{self.make(self._random.choice(_ORDERED), 2)}{way}, "

    def _grouped(self) -> str:
        key = self.make(self._random.choice(_ORDERED), 1)
        made = ", ".join(f"{self._aggregate()} AS a{number}" for number in range(3))
        return f"SELECT {key} AS k, {made} FROM agent_runs GROUP BY k HAVING count(*) > 0 ORDER BY k, count(*)"

    def _aggregate(self) -> str:
        pick = self._random.choice
        number, text = self.make(pick(["bigint", "double precision"]), 1), self.make("text", 1)
        where = f" FILTER (WHERE {self.make('boolean', 1)})" if self._random.random() < 0.3 else ""
        made = [
            "count(*)",
            f"count(DISTINCT {text})",
            f"{pick(['sum', 'avg', 'min', 'max'])}({number})",
            f"{pick(['min', 'max'])}({text})",
            f"stddev_pop({number})",
            f"string_agg({pick(['', 'DISTINCT '])}{text}, '|')",
            f"jsonb_agg({number} ORDER BY id)",
            f"bool_or({self.make('boolean', 1)})",
            f"percentile_cont(0.25) WITHIN GROUP (ORDER BY {number})",
        ]
        return pick(made) + where

    def _nested(self) -> str:
        kind = self._random.choice(_ORDERED)
        inner = f"SELECT id, {self.make(kind, 2)} AS v, {self.make('boolean', 2)} AS b FROM agent_runs"
        over = self._random.choice(["row_number()", "count(*)", "rank()"])
        return f"SELECT id, v, b, {over} OVER (PARTITION BY b ORDER BY v, id) FROM ({inner}) AS q ORDER BY v DESC, id LIMIT 12"

    def _set(self) -> str:
        kind, word = self._random.choice(_ORDERED), self._random.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
        left, right = (
            f"SELECT {self.make(kind, 2)} AS v FROM agent_runs WHERE {self.make('boolean', 1)}" for _ in "ab"
        )
        return f"{left} {word} {right} ORDER BY v"

    def _kind(self) -> str:
        return self._random.choice(list(_COLUMNS))

    def make(self, kind: str, depth: int) -> str:
        """An expression of this kind."""
        if depth == 0 or self._random.random() < 0.2:
            return self._random.choice(_COLUMNS[kind] * 2 + _LITERALS[kind])
        return self._random.choice(getattr(self, "_" + kind.replace(" ", "_"))(depth - 1))

    def _shared(self, kind: str, depth: int) -> list[str]:
        one, two, true = self.make(kind, depth), self.make(kind, depth), self.make("boolean", depth)
        return [
            f"coalesce({one}, {two})",
            f"CASE WHEN {true} THEN {one} ELSE {two} END",
            f"CASE WHEN {true} THEN {one} END",
        ]

    def _bigint(self, depth: int) -> list[str]:
        one, two, text = self.make("bigint", depth), self.make("bigint", depth), self.make("text", depth)
        return [
            *(f"({one} {sign} {two})" for sign in "+-*"),
            f"length({text})",
            f"strpos({text}, 'a')",
            f"nullif({one}, {two})",
            f"greatest({one}, {two})",
            f"abs({one})",
            f"({self.make('boolean', depth)})::int",
            *self._shared("bigint", depth),
        ]

    def _double_precision(self, depth: int) -> list[str]:
        one, two = self.make("double precision", depth), self.make("double precision", depth)
        return [
            *(f"({one} {sign} {two})" for sign in "+-"),
            f"({one} / 4.0)",
            f"round({one}, {self._random.choice([0, 1, 3, -2])})",
            f"floor({one})",
            f"least({one}, {two})",
            f"({self.make('bigint', depth)} + {one})",
            *self._shared("double precision", depth),
        ]

    def _text(self, depth: int) -> list[str]:
        one, two, number = self.make("text", depth), self.make("text", depth), self.make("bigint", depth)
        return [
            f"({one} || {two})",
            f"upper({one})",
            f"substr({one}, 2, 3)",
            f"left({one}, 3)",
            f"replace({one}, 'a', 'bb')",
            f"({number})::text",
            f"({self.make('double precision', depth)})::text",
            f"({self.make('jsonb', depth)})::text",
            f"{self.make('jsonb', 0)}->>'{self._random.choice(['a', 'n', 'task', '0'])}'",
            f"concat({one}, {number}, NULL)",
            f"split_part({one}, 'a', 1)",
            *self._shared("text", depth),
        ]

    def _boolean(self, depth: int) -> list[str]:
        pick, text = self._random.choice, self.make("text", depth)
        kind = pick(_ORDERED)
        one, two = self.make(kind, depth), self.make(kind, depth)
        return [
            f"({one} {pick(['=', '<>', '<', '<=', '>', '>='])} {two})",
            f"({one} IS {pick(['', 'NOT '])}NULL)",
            f"({one} IS DISTINCT FROM {two})",
            f"({one} IN ({two}, {self.make(kind, 0)}))",
            f"({one} BETWEEN {two} AND {self.make(kind, 0)})",
            f"({text} {pick(['LIKE', 'ILIKE', 'NOT LIKE'])} '%a_')",
            f"(NOT {self.make('boolean', depth)})",
            f"({self.make('boolean', depth)} {pick(['AND', 'OR'])} {self.make('boolean', depth)})",
            f"({self.make('jsonb', depth)} ? '{pick(['a', 'n', 'task'])}')",
            f"({self.make('jsonb', depth)} = {self.make('jsonb', depth)})",
            f"({self.make('jsonb', depth)} @> {self.make('jsonb', 0)})",
        ]

    def _jsonb(self, depth: int) -> list[str]:
        one = self.make("jsonb", depth)
        return [
            f"({one}->'{self._random.choice(['a', 'scores', 'any', 'n', 'list'])}')",
            f"({one}->{self._random.choice([0, 1, -1])})",
            f"({one} #> '{{a,0}}')",
            f"to_jsonb({self.make(self._random.choice(_ORDERED), depth)})",
            *self._shared("jsonb", depth),
        ]


def queries(seed: int, count: int) -> Iterator[str]:
    maker = Maker(seed)
    for _ in range(count):
        yield maker.query()
