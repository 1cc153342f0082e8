"""Settings by Kafka's names: those of a topic, and those of a broker that its logs use.

Source: ``LogConfig.java``, ``KafkaConfig.scala``, ``ConfigDef.java``.
"""

from kafkalog.config.broker_config import BrokerConfig
from kafkalog.config.log_config import LogConfig

__all__ = ["BrokerConfig", "LogConfig"]
