"""A wrong query says what is wrong, in PostgreSQL's words, and points at it."""

from __future__ import annotations

import pytest

from icestream.errors import NotSupportedError, SqlError
from tests.unit.plan.tables import bind

# the query with » before what the caret must point at
WRONG = [
    ("SELECT * FROM »ordres", 'relation "ordres" does not exist', "did you mean 'orders'?"),
    ("SELECT »prise FROM orders", 'column "prise" does not exist', "did you mean 'price'?"),
    ("SELECT »o.prise FROM orders o", 'column "o.prise" does not exist', "did you mean 'price'?"),
    ("SELECT »ordrs.id FROM orders", 'missing FROM-clause entry for table "ordrs"', "did you mean 'orders'?"),
    ("SELECT »orders.id FROM orders o", 'missing FROM-clause entry for table "orders"', None),
    ("SELECT »x.* FROM orders", 'missing FROM-clause entry for table "x"', None),
    ("SELECT »*", "SELECT * with no tables specified is not valid", None),
    ("SELECT »id FROM orders, customers", 'column reference "id" is ambiguous', "write it as relation.id"),
    ("SELECT 1 FROM orders JOIN »orders ON TRUE", 'table name "orders" specified more than once', None),
    ("SELECT id FROM orders WHERE »price", "argument of WHERE must be type boolean, not type numeric", None),
    ("SELECT id FROM orders WHERE »count(*) > 1", "aggregate functions are not allowed in WHERE", "HAVING"),
    ("SELECT id FROM orders WHERE »max(id) = ANY (SELECT id FROM customers)", "aggregate functions are not allowed in WHERE", "HAVING"),
    ("SELECT id FROM orders WHERE »max(id) > ALL (SELECT id FROM customers)", "aggregate functions are not allowed in WHERE", "HAVING"),
    ("SELECT id FROM orders WHERE »max(id) IN (SELECT id FROM customers) OR id = 1", "aggregate functions are not allowed in WHERE", "HAVING"),
    ("SELECT id FROM orders WHERE »rank() OVER (ORDER BY id) = 1", "window functions are not allowed in WHERE", "subquery"),
    ("SELECT id FROM orders WHERE »unnest(tags) = 'x'", "set-returning functions are not allowed in WHERE", None),
    ("SELECT 1 FROM orders o JOIN customers c ON »sum(c.id) = 1", "aggregate functions are not allowed in JOIN conditions", None),
    ("SELECT customer, »price FROM orders GROUP BY customer", 'column "orders.price" must appear in the GROUP BY clause or be used in an aggregate function', None),
    ("SELECT count(*), »item FROM orders", 'column "orders.item" must appear in the GROUP BY clause', None),
    ("SELECT count(*) FROM orders HAVING »price > 1", 'column "orders.price" must appear in the GROUP BY clause', None),
    ("SELECT count(*) FROM orders ORDER BY »id", 'column "orders.id" must appear in the GROUP BY clause', None),
    ("SELECT count(*) FROM orders GROUP BY »sum(id)", "aggregate functions are not allowed in GROUP BY", None),
    ("SELECT »sum(count(*)) FROM orders", "aggregate function calls cannot be nested", None),
    ("SELECT sum(»rank() OVER (ORDER BY id)) OVER () FROM orders", "window function calls cannot be nested", None),
    ("SELECT count(*) FROM orders HAVING »rank() OVER () > 1", "window functions are not allowed in HAVING", None),
    ("SELECT id FROM orders GROUP BY »3", "GROUP BY position 3 is not in select list", None),
    ("SELECT id FROM orders ORDER BY »0", "ORDER BY position 0 is not in select list", None),
    ("SELECT id FROM orders ORDER BY »'id'", "non-integer constant in ORDER BY", None),
    ("SELECT id AS x, price AS x FROM orders ORDER BY »x", 'ORDER BY "x" is ambiguous', None),
    ("SELECT DISTINCT id FROM orders ORDER BY »price", "for SELECT DISTINCT, ORDER BY expressions must appear in select list", None),
    ("SELECT DISTINCT ON (»id) id FROM orders ORDER BY price", "SELECT DISTINCT ON expressions must match initial ORDER BY expressions", None),
    ("SELECT id FROM orders UNION SELECT »id, name FROM customers", "each UNION query must have the same number of columns", None),
    ("SELECT id FROM orders EXCEPT SELECT »name FROM customers", "EXCEPT types integer and text cannot be matched", None),
    ("SELECT id FROM orders UNION SELECT 1 ORDER BY »price", 'column "price" does not exist', None),
    ("SELECT id FROM orders UNION SELECT 1 ORDER BY »id + 1", "invalid UNION/INTERSECT/EXCEPT ORDER BY clause", "only result column names"),
    ("VALUES (1, 2), (»3)", "VALUES lists must all be the same length", None),
    ("VALUES (»1), (TRUE)", "VALUES types integer and boolean cannot be matched", None),
    ("SELECT 1 FROM orders JOIN customers USING (»nam)", 'column "nam" specified in USING clause does not exist in left table', None),
    ("SELECT 1 FROM customers JOIN orders USING (»name)", 'column "name" specified in USING clause does not exist in right table', None),
    ("SELECT * FROM customers AS »c (a, b, c, d)", 'table "c" has 3 columns available but 4 columns specified', None),
    ("SELECT (SELECT »id, name FROM customers)", "subquery must return only one column", None),
    ("SELECT id FROM orders WHERE id IN (SELECT »id, name FROM customers)", "subquery has too many columns", None),
    ("SELECT id FROM orders WHERE (id, item) IN (SELECT »id FROM customers)", "subquery has too few columns", None),
    ("SELECT id FROM orders WHERE »item IN (SELECT id FROM customers)", "operator does not exist: text = bigint", "cast"),
    ("SELECT id FROM orders LIMIT -»1", "LIMIT must not be negative", None),
    ("WITH a AS (SELECT 1), »a AS (SELECT 2) SELECT * FROM a", 'WITH query name "a" specified more than once', None),
    ("SELECT customer, (SELECT name FROM customers c WHERE c.id = »orders.id) FROM orders GROUP BY customer", 'subquery uses ungrouped column "orders.id" from outer query', None),
    ("SELECT * FROM »tumble(orders, at)", "tumble takes a relation, a time column and a size", None),
    ("SELECT * FROM tumble(orders, »price, INTERVAL '1 hour')", "the time of tumble must be a column of type date", None),
    ("SELECT * FROM »tumble(orders, at, INTERVAL '1 month')", "a window cannot be measured in months", "date_trunc"),
    ("SELECT * FROM »hop(orders, at, INTERVAL '2 hours', INTERVAL '3 hours')", "the size of a window must be a multiple of its slide", None),
    ("SELECT »rank() OVER w FROM orders", 'window "w" does not exist', None),
]  # fmt: skip

NOT_YET = [
    ("WITH RECURSIVE »r AS (SELECT 1) SELECT * FROM r", "WITH RECURSIVE"),
    (
        "SELECT »rank() OVER (ORDER BY id) IN (SELECT id FROM customers) FROM orders",
        "a window function compared with a subquery",
    ),
    ("SELECT (SELECT »max(o.id) FROM customers) FROM orders o", "belongs to that query"),
    (
        "SELECT item, (SELECT max(c.id) FROM customers c WHERE c.id > »count(o.id)) FROM orders o GROUP BY item",
        "count() over columns of the query around, which belongs to that query",
    ),
    ("SELECT id FROM orders LIMIT »1 + 1", "LIMIT that is not a constant"),
    ("SELECT * FROM orders o LEFT JOIN customers c ON »o.id = (SELECT 1)", "subquery in the ON"),
]


@pytest.mark.parametrize(("marked", "message", "hint"), WRONG, ids=[w[0] for w in WRONG])
def test_a_wrong_query_points_at_its_mistake(marked: str, message: str, hint: str | None) -> None:
    with pytest.raises(SqlError) as caught:
        bind(marked.replace("»", ""))
    assert caught.value.message.startswith(message)
    assert caught.value.place is not None
    assert caught.value.place.column == marked.index("»") + 1, str(caught.value)
    if hint:
        assert hint in str(caught.value.remedy)


@pytest.mark.parametrize(("marked", "what"), NOT_YET, ids=[w[0] for w in NOT_YET])
def test_what_is_not_there_yet_is_named(marked: str, what: str) -> None:
    with pytest.raises(NotSupportedError) as caught:
        bind(marked.replace("»", ""))
    assert what in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.column == marked.index("»") + 1, str(caught.value)
