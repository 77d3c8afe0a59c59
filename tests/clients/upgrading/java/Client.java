import java.util.Collections;
import java.util.Properties;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** One step by Kafka's own clients, by what releases since 0.10 have in common. */
public final class Client {
    private static final int RECORDS = 10;
    private static final long PATIENCE = 30_000;

    public static void main(String[] arguments) throws Exception {
        new Timer(true).schedule(new TimerTask() {
            @Override
            public void run() {
                System.err.println("not done in time");
                Runtime.getRuntime().halt(1);
            }
        }, PATIENCE);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        if (arguments[2].equals("produce")) {
            produce(arguments[1], settings);
        } else {
            consume(arguments[1], settings);
        }
    }

    private static void produce(String topic, Properties settings) throws Exception {
        settings.put("client.id", "old-producer");
        StringSerializer texts = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, texts, texts)) {
            for (int number = 0; number < RECORDS; number++) {
                producer.send(new ProducerRecord<>(topic, "record " + number)).get(10, TimeUnit.SECONDS);
            }
        }
    }

    private static void consume(String topic, Properties settings) {
        settings.put("client.id", "old-consumer");
        settings.put("group.id", topic + "-group");
        settings.put("auto.offset.reset", "earliest");
        StringDeserializer texts = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, texts, texts)) {
            consumer.subscribe(Collections.singletonList(topic));
            for (int left = RECORDS; left > 0;) {
                left -= consumer.poll(500L).count();
            }
        }
    }
}
