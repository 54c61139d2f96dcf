"""Queries → plans: what a query means, as a tree of relational nodes over stored relations. No Spark, no JVM.

    logical   the nodes                       query    a parsed query → nodes (`bind_query`)
    spark     nodes → one Spark SQL text      linear   can a plan run on a delta alone, and if not, why
    explain   nodes → an indented tree        rewrite  expressions and plans with parts replaced

Behind `query`: `scope` says what a name means; `tables`, `joins` and `table_functions` bind FROM, `select` one SELECT,
`grouping` GROUP BY, `limits` LIMIT; `subqueries` and `decorrelate` turn the queries inside expressions into joins;
`naming` knows what PostgreSQL calls a column without a name, `tidy` removes what nobody reads.
"""
