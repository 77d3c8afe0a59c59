import java.time.Duration;
import java.util.Arrays;
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

/**
 * What a client does that lives under one instance ID: it produces, joins a group, and tidies up behind it.
 *
 * Arguments: bootstrap, topic, milliseconds between two messages, and further settings as key=value.
 */
public final class NewClients {
    private static final int MESSAGES = 10;
    private static final String GROUP = "scenario-java";

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        produce(arguments, topic);
        consume(arguments, topic);
        tidyUp(arguments, topic);
    }

    private static void produce(String[] arguments, String topic) throws Exception {
        Properties settings = settings(arguments, "java-producer");
        // The newest version of InitProducerId is unstable, so that nobody can tell how it would be lifted.
        settings.put("enable.idempotence", "false");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < MESSAGES; number++) {
                producer.send(new ProducerRecord<>(topic, "message " + number)).get();
                Thread.sleep(Long.parseLong(arguments[2]));
            }
        }
    }

    private static void consume(String[] arguments, String topic) {
        Properties settings = settings(arguments, "java-consumer");
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

    private static void tidyUp(String[] arguments, String topic) throws Exception {
        try (var admin = Admin.create(settings(arguments, "java-admin"))) {
            var partitions = Set.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
            admin.deleteConsumerGroupOffsets(GROUP, partitions).all().get();
        }
    }

    private static Properties settings(String[] arguments, String clientId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", clientId);
        for (String given : Arrays.copyOfRange(arguments, 3, arguments.length)) {
            String[] setting = given.split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        return settings;
    }
}
