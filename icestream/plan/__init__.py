"""Queries → plans: what a query means, as a tree of relational nodes over stored relations. No Spark, no JVM.

    logical   the nodes                       query    a parsed query → nodes (`bind_query`)
    spark     nodes → one Spark SQL text      linear   can a plan run on a delta alone, and if not, why
    explain   nodes → an indented tree

Inside `query`: `tables` binds FROM, `select` one SELECT, `grouping` GROUP BY, `subqueries` and `decorrelate` the
queries inside expressions, `naming` what PostgreSQL calls a column without a name.
"""
