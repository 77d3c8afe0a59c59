import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A share group that reads a topic from its beginning. */
final class ShareClient {
    static void play(String step, String bootstrap, String topic) throws Exception {
        String group = topic + "-share";
        try (var admin = Admin.create(Client.settings(bootstrap, "java-share-admin"))) {
            var earliest = new AlterConfigOp(
                    new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(earliest))).all().get();
        }
        Properties settings = Client.settings(bootstrap, "java-share");
        settings.put("group.id", group);
        var texts = new StringDeserializer();
        try (var consumer = new KafkaShareConsumer<>(settings, texts, texts)) {
            consumer.subscribe(List.of(topic));
            for (int left = Client.RECORDS; left > 0;) {
                left -= consumer.poll(Duration.ofMillis(500)).count();
            }
            consumer.commitSync();
        }
    }
}
