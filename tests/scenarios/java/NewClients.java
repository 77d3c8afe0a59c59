import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a client does that lives under one instance ID: it produces, joins a group, and tidies up behind it. */
public final class NewClients {
    private static final int MESSAGES = 10;
    private static final String GROUP = "scenario-java";

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        produce(bootstrap, topic);
        consume(bootstrap, topic);
        tidyUp(bootstrap, topic);
    }

    private static void produce(String bootstrap, String topic) throws Exception {
        Properties settings = settings(bootstrap, "java-producer");
        // The newest version of InitProducerId is unstable, so that nobody can tell how it would be lifted.
        settings.put("enable.idempotence", "false");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < MESSAGES; number++) {
                producer.send(new ProducerRecord<>(topic, "message " + number)).get();
            }
        }
    }

    private static void consume(String bootstrap, String topic) {
        Properties settings = settings(bootstrap, "java-consumer");
        settings.put("group.id", GROUP);
        settings.put("group.protocol", "consumer");
        settings.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            int left = MESSAGES;
            while (left > 0) {
                left -= consumer.poll(Duration.ofMillis(500)).count();
            }
            consumer.commitSync();
        }
    }

    private static void tidyUp(String bootstrap, String topic) throws Exception {
        try (var admin = Admin.create(settings(bootstrap, "java-admin"))) {
            var partitions = Set.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
            admin.deleteConsumerGroupOffsets(GROUP, partitions).all().get();
        }
    }

    private static Properties settings(String bootstrap, String clientId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId);
        return settings;
    }
}
