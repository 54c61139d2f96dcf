"""TLS and SASL against a real broker that insists on both."""

from __future__ import annotations

import threading

import pytest

from icestream.config import EngineSettings, Home
from icestream.dev.broker import Broker
from icestream.dev.child import free_ports
from icestream.engine import Engine
from icestream.errors import ConnectorError
from tests.engine import column
from tests.services import certificates
from tests.services import kafka as client
from tests.spark_session import spark  # noqa: F401

pytestmark = [pytest.mark.spark, pytest.mark.services]

SCRIPT = """
CREATE SOURCE s (id BIGINT) WITH (
  connector = 'kafka', topic = 'secure', properties.bootstrap.server = '127.0.0.1:{port}',
  properties.security.protocol = 'SASL_SSL', properties.sasl.mechanism = 'PLAIN',
  properties.sasl.username = 'alice', properties.sasl.password = '${{ALICE}}',
  properties.ssl.ca.location = '{ca}', properties.timeout = 8
) FORMAT PLAIN ENCODE JSON;
CREATE SINK k FROM s WITH (connector = 'iceberg', type = 'append-only', table.name = 'k',
  create_table_if_not_exists = 'true');
"""


def test_tls_and_sasl(tmp_path, spark) -> None:  # noqa: F811
    ca, keystore = certificates.make(tmp_path)
    (port,) = free_ports(1)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    config = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f'{login} user_alice="open sesame";',
    }
    broker = Broker(tmp_path / "kafka", listeners={"SECURE": (port, "SASL_SSL")}, config=config)
    with broker:
        client.create_topic(broker.bootstrap, "secure", 2)
        client.produce(broker.bootstrap, "secure", [(None, f'{{"id": {i}}}') for i in range(100)])
        script = SCRIPT.format(port=port, ca=ca)

        def engine(home: str, password: str) -> Engine:
            env = {"ALICE": password}
            return Engine(
                Home.at(tmp_path / home),
                EngineSettings(),
                env=env,
                application=spark,
                allow_paths=["/"],
            )

        with engine("good", "open sesame") as good:
            good.execute(script)
            good.run(threading.Event(), once=True)
        assert sorted(column(tmp_path / "good", "public.k", "id")) == list(range(100))

        with engine("bad", "wrong password") as bad, pytest.raises(ConnectorError) as caught:
            bad.execute(script)
        assert "did not answer" in str(caught.value)
        assert "uthentication" in str(caught.value)
        assert "wrong password" not in str(caught.value)
    kept = b"".join(p.read_bytes() for p in (tmp_path / "good").rglob("*") if p.is_file())
    assert b"open sesame" not in kept
