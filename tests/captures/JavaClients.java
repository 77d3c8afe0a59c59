import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Ordinary Java clients: a producer, then a consumer of each group protocol. */
public final class JavaClients {
    private static final int MESSAGES = 10;

    public static void main(String[] arguments) {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        produce(bootstrap, topic);
        consume(bootstrap, topic, "classic");
        consume(bootstrap, topic, "consumer");
    }

    private static void produce(String bootstrap, String topic) {
        try (var producer = new KafkaProducer<>(settings(bootstrap, "java-producer"), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < MESSAGES; number++) {
                producer.send(new ProducerRecord<>(topic, "message " + number));
            }
        }
    }

    private static void consume(String bootstrap, String topic, String protocol) {
        Properties settings = settings(bootstrap, "java-" + protocol);
        settings.put("group.id", "java-" + protocol);
        settings.put("group.protocol", protocol);
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

    private static Properties settings(String bootstrap, String clientId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId);
        return settings;
    }
}
