import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.requests.AbstractRequest;

/**
 * Kafka's own classes as the judge of a codec. Lines of fields parted by tabs, in and out:
 *
 * <pre>
 * list              out: message, version, its header version (-1 of a header)
 * make SEED COUNT   in:  message, version      out: message, version, hex, verdict; COUNT for each line
 * judge             in:  message, version, hex out: verdict
 * close SEED COUNT                             out: key of an API that a broker closes upon for what a request says
 * </pre>
 *
 * A verdict is how many bytes were read, the bytes that Kafka writes of what it read in hex, whether the
 * second decoder agrees, JSON, and the reason of a refusal.
 */
public final class Oracle {
    private static final short NO_HEADER = -1;
    private static final BufferedReader IN =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<String, KafkaMessage> KNOWN = new HashMap<>();

    private Oracle() {
    }

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        switch (arguments[0]) {
            case "list" -> list();
            case "make" -> make(Long.parseLong(arguments[1]), Integer.parseInt(arguments[2]));
            case "judge" -> judge();
            case "close" -> close(Long.parseLong(arguments[1]), Integer.parseInt(arguments[2]));
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        OUT.flush();
    }

    private static void list() {
        for (ApiMessageType type : ApiMessageType.values()) {
            // An API that has lost all its versions has no message to ask for them.
            if (type.highestSupportedVersion(true) >= type.lowestSupportedVersion()) {
                print(type.newRequest(), type::requestHeaderVersion);
                print(type.newResponse(), type::responseHeaderVersion);
            }
        }
        print(new RequestHeaderData(), version -> NO_HEADER);
        print(new ResponseHeaderData(), version -> NO_HEADER);
    }

    private static void print(Message message, Function<Short, Short> headerVersion) {
        String name = message.getClass().getSimpleName().replaceAll("Data$", "");
        short highest = message.highestSupportedVersion();
        for (short version = message.lowestSupportedVersion(); version <= highest; version++) {
            OUT.printf("%s\t%d\t%d%n", name, version, headerVersion.apply(version));
        }
    }

    private static void make(long seed, int count) throws IOException, ReflectiveOperationException {
        RandomMessage random = new RandomMessage(seed);
        for (String[] asked = next(); asked != null; asked = next()) {
            KafkaMessage message = message(asked);
            for (int made = 0; made < count; made++) {
                byte[] bytes = random.of(message.schema);
                String hex = HexFormat.of().formatHex(bytes);
                OUT.println(String.join("\t", asked[0], asked[1], hex, message.judge(bytes).line()));
            }
        }
    }

    private static void judge() throws IOException, ReflectiveOperationException {
        for (String[] asked = next(); asked != null; asked = next()) {
            OUT.println(message(asked).judge(HexFormat.of().parseHex(asked[2])).line());
        }
    }

    /** A broker that fails to make a request of a body that it has read closes the connection. */
    private static void close(long seed, int count) {
        RandomMessage random = new RandomMessage(seed);
        for (ApiMessageType type : ApiMessageType.values()) {
            boolean isRefused = false;
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(true); version++) {
                for (int made = 0; made < count; made++) {
                    ByteBuffer bytes = ByteBuffer.wrap(random.of(type.requestSchemas()[version]));
                    isRefused |= isRefused(ApiKeys.forId(type.apiKey()), version, new ByteBufferAccessor(bytes));
                }
            }
            if (isRefused) {
                OUT.println(type.apiKey());
            }
        }
    }

    private static boolean isRefused(ApiKeys api, short version, Readable body) {
        try {
            AbstractRequest.parseRequest(api, version, body);
            return false;
        } catch (RuntimeException refusal) {
            return true;
        }
    }

    private static KafkaMessage message(String[] asked) throws ReflectiveOperationException {
        String key = asked[0] + asked[1];
        if (!KNOWN.containsKey(key)) {
            KNOWN.put(key, new KafkaMessage(asked[0], Short.parseShort(asked[1])));
        }
        return KNOWN.get(key);
    }

    private static String[] next() throws IOException {
        String line = IN.readLine();
        return line == null ? null : line.split("\t", -1);
    }
}
