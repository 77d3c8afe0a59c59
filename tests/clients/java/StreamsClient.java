import java.nio.file.Files;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** A topology without state, which copies one topic to another. */
final class StreamsClient {
    static void play(String step, String bootstrap, String topic) throws Exception {
        Properties settings = Client.settings(bootstrap, "java-" + step);
        settings.put("application.id", topic + "-" + step);
        settings.put("state.dir", Files.createTempDirectory("streams").toString());
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("auto.offset.reset", "earliest");
        if (step.equals("streams-1071")) {
            settings.put("group.protocol", "streams");
        }
        var copied = new CountDownLatch(Client.RECORDS);
        var builder = new StreamsBuilder();
        builder.<String, String>stream(topic).peek((key, value) -> copied.countDown()).to(topic + "-copy");
        try (var streams = new KafkaStreams(builder.build(), settings)) {
            streams.start();
            if (!copied.await(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the records were not copied");
            }
            streams.close(Duration.ofSeconds(20));
        }
    }
}
