"""The keys of a Kafka Connect Iceberg sink: what is known, what is accepted without a meaning here, what is refused.

The names and defaults are those of Apache Iceberg's sink and of Tabular's before it. A key that is in none of these lists
is an error: nothing that a user wrote is ignored in silence.
"""

from __future__ import annotations

from collections.abc import Mapping

from icestream.connectors.kafka_options import PASS_THROUGH
from icestream.sql.options import OptionSpec, PrefixSpec, Spec

CLASSES = (
    "io.tabular.iceberg.connect.IcebergSinkConnector",
    "org.apache.iceberg.connect.IcebergSinkConnector",
)
JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"

CLIENTS = ("consumer.override.", "iceberg.kafka.")
"""Where properties of the Kafka client may stand; the first wins."""

CATALOG_CLASSES: Mapping[str, str] = {
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.hadoop.HadoopCatalog": "hadoop",
    "org.apache.iceberg.jdbc.JdbcCatalog": "jdbc",
}
S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"
FILE_IOS = (
    S3_FILE_IO,
    "org.apache.iceberg.hadoop.HadoopFileIO",
    "org.apache.iceberg.io.ResolvingFileIO",
)
CATALOG_KEYS = (
    "uri", "warehouse", "prefix", "credential", "token", "scope", "audience", "resource",
    "oauth2-server-uri", "token-refresh-enabled", "token-exchange-enabled",
    "rest.sigv4-enabled", "rest.signing-name", "rest.signing-region", "rest.access-key-id",
    "rest.secret-access-key", "rest.session-token", "rest-page-size",
    "client.region", "s3.endpoint", "s3.access-key-id", "s3.secret-access-key",
    "s3.session-token", "s3.path-style-access", "s3.remote-signing-enabled", "s3.acl",
    "s3.sse.type", "s3.sse.key", "s3.sse.md5", "s3.checksum-enabled", "s3.cross-region-access-enabled",
    "s3.use-arn-region-enabled", "s3.multipart.size-bytes", "s3.multipart.threshold",
    "s3.delete-enabled", "s3.write.storage-class",
    "glue.id", "glue.endpoint", "glue.skip-archive", "glue.skip-name-validation",
    "jdbc.user", "jdbc.password", "jdbc.schema-version", "clients", "list-all-tables",
)  # fmt: skip
"""Properties of a catalog that only say where it is and how to log in: none makes the client load code."""

_SECURITY = tuple(
    spec
    for prefix in CLIENTS
    for spec in (
        OptionSpec(
            f"{prefix}security.protocol",
            choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
            help="how to talk to the brokers",
        ),
        OptionSpec(
            f"{prefix}sasl.mechanism",
            choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
            help="how to log in",
        ),
        OptionSpec(
            f"{prefix}sasl.jaas.config",
            secret=True,
            help="user and password, as PlainLoginModule or ScramLoginModule take them",
        ),
        OptionSpec(f"{prefix}bootstrap.servers", help="broker addresses"),
        OptionSpec(
            f"{prefix}auto.offset.reset",
            choices=("earliest", "latest"),
            help="where to begin when the connector is created",
        ),
        PrefixSpec(prefix, "other properties of the consumer", PASS_THROUGH),
    )
)

WITHOUT_MEANING: tuple[str, ...] = (
    "tasks.max", "tasks.max.enforce", "header.converter", "key.converter.schemas.enable",
    "value.converter.schemas.cache.size", "value.converter.decimal.format",
    "config.action.reload", "errors.tolerance", "errors.retry.timeout",
    "errors.retry.delay.max.ms", "errors.log.enable", "errors.log.include.messages",
    "iceberg.control.topic", "iceberg.control.group-id", "iceberg.control.group-id-prefix",
    "iceberg.control.commit.timeout-ms", "iceberg.control.commit.threads",
    "iceberg.control.commit.max-consecutive-failures", "iceberg.connect.group-id",
    "iceberg.coordinator.transactional.prefix",
    "iceberg.coordinator-executor-keep-alive-timeout-ms",
)  # fmt: skip
"""How Connect runs its workers and agrees on commits. There are no workers here, and the epoch log is the agreement."""

KEYS: tuple[Spec, ...] = (
    OptionSpec("connector.class", required=True, choices=CLASSES, help="the sink's Java class"),
    OptionSpec("topics", help="the topics, with commas between them"),
    OptionSpec("topics.regex", help="instead of topics: all whose whole name matches"),
    OptionSpec(
        "bootstrap.servers",
        aliases=("kafka.bootstrap.servers",),
        help="broker addresses; without them, the environment variable KAFKA_BOOTSTRAP_SERVERS",
    ),
    OptionSpec("key.converter", choices=(JSON, STRING), help="keys are not read"),
    OptionSpec("value.converter", default=JSON, choices=(JSON,), help="how values are written"),
    OptionSpec(
        "value.converter.schemas.enable",
        "bool",
        help="whether values are {schema, payload}; not given: each record shows it",
    ),
    OptionSpec("iceberg.catalog", default="iceberg", help="the catalog's name"),
    OptionSpec(
        "iceberg.catalog.type",
        choices=tuple(CATALOG_CLASSES.values()),
        help="the kind of catalog; without any iceberg.catalog.* key: the embedded lake",
    ),
    OptionSpec("iceberg.catalog.catalog-impl", choices=tuple(CATALOG_CLASSES)),
    OptionSpec("iceberg.catalog.io-impl", choices=FILE_IOS),
    PrefixSpec("iceberg.catalog.header.", "headers of requests to a REST catalog"),
    PrefixSpec("iceberg.catalog.", "properties of the catalog", CATALOG_KEYS),
    OptionSpec("iceberg.tables", "list", required=True, help="the tables: namespace.table, …"),
    OptionSpec("iceberg.tables.route-field", help="the field that chooses a record's tables"),
    OptionSpec("iceberg.tables.auto-create-enabled", "bool", False, "create missing tables"),
    OptionSpec("iceberg.tables.evolve-schema-enabled", "bool", False, "add new fields as columns"),
    OptionSpec("iceberg.tables.schema-force-optional", "bool", False, "create optional columns"),
    OptionSpec("iceberg.tables.schema-case-insensitive", "bool", False, "match names in any case"),
    OptionSpec("iceberg.tables.default-partition-by", help="how a new table is partitioned"),
    PrefixSpec("iceberg.tables.auto-create-props.", "properties of a new table"),
    OptionSpec(
        "iceberg.control.commit.interval-ms",
        "int",
        300_000,
        "milliseconds between commits",
        aliases=("iceberg.control.commit-interval-ms",),
        least=1,
    ),
    *_SECURITY,
    *(OptionSpec(name) for name in WITHOUT_MEANING),
)

OFF_ONLY: Mapping[str, str] = {
    "iceberg.tables.dynamic-enabled": "tables named by the records",
    "iceberg.tables.upsert-mode-enabled": "upserts",
}
"""Switches that may be there as long as they are off."""

REFUSED: tuple[tuple[str, str], ...] = (
    (r"transforms(\..*)?", "transforms of records (do it in SQL)"),
    (r"predicates(\..*)?", "transforms of records (do it in SQL)"),
    (r"iceberg\.tables\.cdc-field", "change records"),
    (r"iceberg\.tables\.default-id-columns", "upserts"),
    (r"iceberg\.table\..+\.id-columns", "upserts"),
    (r"iceberg\.tables\.default-commit-branch", "commits to a branch"),
    (r"iceberg\.table\..+\.commit-branch", "commits to a branch"),
    (r"iceberg\.tables\.write-props\..+", "write properties (set them on the table)"),
    (r"iceberg\.hadoop(\..+|-conf-dir)", "settings of Hadoop, which may load code and read files"),
    (r"errors\.deadletterqueue\..+", "a dead-letter topic (see the table dead_letters.<connector>)"),
    (
        r"iceberg\.catalog\.(.*-impl|.*\.impl|.*factory.*|.*provider.*)",
        "a setting that makes the client load code",
    ),
    (
        r"(iceberg\.tables\.auto-create-props|consumer\.override|iceberg\.kafka)\."
        r"(.*[.-]impl|.*\.class(es)?|.*\.reporters|.*provider.*|.*handler.*|.*assignment\.strategy)",
        "a setting that makes the client load code",
    ),
)  # fmt: skip
"""Patterns of keys that are understood and not taken, each with what it asks for."""

KNOWN_CATALOG_CLASSES = ("iceberg.catalog.catalog-impl", "iceberg.catalog.io-impl")
