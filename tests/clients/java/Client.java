import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The workload by Kafka's own clients. Steps that old releases lack are in classes of their own. */
public final class Client {
    static final int RECORDS = 50;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        for (int place = 2; place < arguments.length; place++) {
            play(arguments[place], bootstrap, topic);
        }
    }

    private static void play(String step, String bootstrap, String topic) throws Exception {
        switch (step) {
            case "administer" -> administer(bootstrap, topic);
            case "produce" -> produce(bootstrap, topic);
            case "consume" -> consume(bootstrap, topic, "classic");
            case "consume-848" -> consume(bootstrap, topic, "consumer");
            case "transact" -> transact(bootstrap, topic);
            case "acks-0" -> sendUnacknowledged(bootstrap, topic);
            default -> {
                String name = step.startsWith("streams") ? "StreamsClient" : "ShareClient";
                var played = Class.forName(name).getDeclaredMethod("play", String.class, String.class, String.class);
                played.invoke(null, step, bootstrap, topic);
            }
        }
    }

    private static void administer(String bootstrap, String topic) throws ExecutionException, InterruptedException {
        try (var admin = Admin.create(settings(bootstrap, "java-admin"))) {
            admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1), new NewTopic(topic + "-copy", 2, (short) 1)))
                    .all().get();
            admin.listTopics().names().get();
            admin.describeCluster().nodes().get();
            admin.listConsumerGroups().all().get();
        }
    }

    private static void produce(String bootstrap, String topic) throws ExecutionException, InterruptedException {
        var texts = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings(bootstrap, "java-producer"), texts, texts)) {
            for (int number = 0; number < RECORDS; number++) {
                producer.send(new ProducerRecord<>(topic, "record " + number)).get();
            }
        }
    }

    private static void sendUnacknowledged(String bootstrap, String topic)
            throws ExecutionException, InterruptedException {
        Properties settings = settings(bootstrap, "java-unacknowledged");
        settings.put("acks", "0");
        settings.put("enable.idempotence", "false");
        var texts = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings, texts, texts)) {
            for (int number = 0; number < 10; number++) {
                producer.send(new ProducerRecord<>(topic, "record " + number)).get();
            }
        }
    }

    private static void transact(String bootstrap, String topic) {
        Properties settings = settings(bootstrap, "java-transactional");
        settings.put("transactional.id", topic);
        var texts = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings, texts, texts)) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int number = 0; number < 10; number++) {
                producer.send(new ProducerRecord<>(topic, "record " + number));
            }
            producer.commitTransaction();
        }
    }

    private static void consume(String bootstrap, String topic, String protocol) {
        Properties settings = settings(bootstrap, "java-" + protocol);
        settings.put("group.id", topic + "-" + protocol);
        settings.put("auto.offset.reset", "earliest");
        if (!protocol.equals("classic")) {
            settings.put("group.protocol", protocol);
        }
        var texts = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, texts, texts)) {
            consumer.subscribe(List.of(topic));
            for (int left = RECORDS; left > 0;) {
                left -= consumer.poll(Duration.ofMillis(500)).count();
            }
            consumer.commitSync();
        }
    }

    static Properties settings(String bootstrap, String clientId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId);
        String user = System.getenv("CLIENT_USER");
        if (user != null) {
            settings.put("security.protocol", "SASL_PLAINTEXT");
            settings.put("sasl.mechanism", "PLAIN");
            settings.put("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required"
                    + " username=\"" + user + "\" password=\"" + System.getenv("CLIENT_PASSWORD") + "\";");
        }
        String authority = System.getenv("CLIENT_CA");
        if (authority != null) {
            settings.put("security.protocol", "SSL");
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", authority);
        }
        return settings;
    }
}
