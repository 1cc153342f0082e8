"""Settings by Kafka's names: a topic's, and those of a broker that its logs obey.

Stands on the stair rail: any floor above may hold it. Source: ``LogConfig.java``,
``KafkaConfig.scala``, ``ConfigDef.java``.
"""

from kafkalog.config.broker_config import BrokerConfig
from kafkalog.config.log_config import LogConfig

__all__ = ["BrokerConfig", "LogConfig"]
