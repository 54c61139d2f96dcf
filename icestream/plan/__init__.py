"""Queries → plans → the changes of a view in an epoch. No Spark, no JVM.

logical      `logical` has the nodes, `rewrite` replaces parts of plans, `calls` writes expressions, `tidy` removes unused columns.
bind         `query` turns a parsed query into nodes (`bind_query`). `scope` resolves names; `tables`, `joins` and `table_functions`
             bind FROM, `select` one SELECT, `grouping` GROUP BY, `limits` LIMIT; `subqueries` and `decorrelate` turn subqueries into joins.
incremental  `normal` brings a plan into normal form, `split` and `cut` cut it into the stages of a view (`stages`, `group_stage`),
             `maintain` has the delta rules of nodes. A rule returns a `derivation`: its name, the delta plan, and what that reads.
             `accumulate` says how aggregates are merged, `keys` what tells rows apart, `watermarks` when rows are final.
render       `spark` and `duckdb` write a plan as SQL.
explain      `explain` prints a plan, `explain_stages` the stages of a view with the derivations of their changes.
"""
