import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Says what Kafka makes of settings: how they are defined, and of each line of input what it is. */
public class KafkaSettings {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> BROKER = Map.of(
        "process.roles", "broker,controller", "node.id", "1",
        "controller.quorum.bootstrap.servers", "localhost:9093", "controller.listener.names", "C",
        "listeners", "PLAINTEXT://localhost:9092,C://localhost:9093",
        "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,C:PLAINTEXT");

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1) {
            definitions();
            return;
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            Map<String, Object> answer = new LinkedHashMap<>(JSON.readValue(line, Map.class));
            Map<String, Object> given = (Map<String, Object>) answer.get("given");
            try {
                answer.put("values", answer.get("of").equals("topic") ? topic(given) : broker(given));
            } catch (Exception refused) {
                answer.put("refused", String.valueOf(refused.getMessage()));
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    private static Map<String, Object> topic(Map<String, Object> given) {
        Map<String, String> texts = new TreeMap<>();
        given.forEach((name, value) -> texts.put(name, (String) value));
        LogConfig.validate(Map.of(), texts, new LogConfig(Map.of()).values(), true);
        return describe(new LogConfig(texts));
    }

    private static Map<String, Object> broker(Map<String, Object> given) {
        Properties texts = new Properties();
        texts.putAll(BROKER);
        texts.putAll(given);
        KafkaConfig config = KafkaConfig.fromProps(texts);
        Map<String, Object> defaults = config.extractLogConfigMap();
        LogConfig.validateBrokerLogConfigValues(
            defaults, config.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
        Map<String, Object> found = describe(new LogConfig(defaults));
        found.put("log_directories", config.logDirs());
        found.put("cordoned_log_directories", config.cordonedLogDirs());
        return found;
    }

    private static Map<String, Object> describe(LogConfig config) {
        Map<String, Object> found = new TreeMap<>();
        config.values().forEach((name, value) -> {
            if (value != null)
                found.put(name, ConfigDef.convertToString(value, LogConfig.configType(name).get()));
        });
        found.put("segment_size", config.segmentSize());
        found.put("initial_file_size", config.initFileSize());
        found.put("max_segment_ms", config.maxSegmentMs());
        found.put("compact", config.compact);
        found.put("delete", config.delete);
        return found;
    }

    private static void definitions() throws Exception {
        define("topic", LogConfig.configKeys());
        define("broker", AbstractKafkaConfig.CONFIG_DEF.configKeys());
        define("broker", QuotaConfig.brokerQuotaConfigs().configKeys());  // dynamic ones
        for (var each : new TreeMap<>(ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS).entrySet()) {
            List<String> names = each.getValue().stream().map(ConfigSynonym::name).toList();
            print("synonyms", each.getKey(), Map.of("names", names));
        }
    }

    private static void define(String owner, Map<String, ConfigDef.ConfigKey> keys) throws Exception {
        for (ConfigDef.ConfigKey key : new TreeMap<>(keys).values()) {
            if (key.type == ConfigDef.Type.CLASS || !key.hasDefault())
                continue;
            Map<String, Object> found = new LinkedHashMap<>();
            found.put("type", key.type.name());
            found.put("default", ConfigDef.convertToString(key.defaultValue, key.type));
            found.put("valid", key.validator == null ? null : key.validator.toString());
            found.put("internal", key.internalConfig);
            print(owner, key.name, found);
        }
    }

    private static void print(String owner, String name, Map<String, Object> found) throws Exception {
        Map<String, Object> line = new LinkedHashMap<>(Map.of("of", owner));
        line.put("name", name);
        line.putAll(found);
        System.out.println(JSON.writeValueAsString(line));
    }
}
