import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.SchemaException;

/** One message at one version, as the two decoders of Kafka's own jar know it: *Data and SCHEMAS. */
final class KafkaMessage {
    private static final String PACKAGE = "org.apache.kafka.common.message.";

    final Schema schema;
    private final short version;
    private final Constructor<?> reader;
    private final Method json;

    /** @param name the schema's name: MetadataRequest, RequestHeader */
    KafkaMessage(String name, short version) throws ReflectiveOperationException {
        Class<?> data = Class.forName(PACKAGE + name + "Data");
        Class<?> converter = Class.forName(PACKAGE + name + "DataJsonConverter");
        this.schema = ((Schema[]) data.getField("SCHEMAS").get(null))[version];
        this.version = version;
        this.reader = data.getConstructor(Readable.class, short.class);
        this.json = converter.getMethod("write", data, short.class, boolean.class);
    }

    /**
     * Reads bytes and tells what they are: how many were read, the bytes that Kafka writes for what it
     * read, and its JSON; and whether the second decoder reads the same from those bytes.
     */
    Verdict judge(byte[] bytes) throws ReflectiveOperationException {
        ByteBufferAccessor source = new ByteBufferAccessor(ByteBuffer.wrap(bytes));
        Message data;
        try {
            data = (Message) reader.newInstance(source, version);
        } catch (InvocationTargetException refusal) {
            return Verdict.refused(refusal.getCause());
        }
        byte[] written = written(data);
        JsonNode value = (JsonNode) json.invoke(null, data, version, false);
        int read = bytes.length - source.remaining();
        return new Verdict(read, written, value.toString(), agrees(written, value));
    }

    private boolean agrees(byte[] written, JsonNode value) {
        try {
            return Agreement.on(schema, schema.read(ByteBuffer.wrap(written)), value);
        } catch (SchemaException | BufferUnderflowException refusal) {
            return false;
        }
    }

    /** Nothing where tags repeat or do not ascend: those are read, but not written. */
    private byte[] written(Message data) {
        ByteBuffer buffer;
        try {
            buffer = MessageUtil.toByteBufferAccessor(data, version).buffer();
        } catch (RuntimeException refusal) {
            return new byte[0];
        }
        byte[] written = new byte[buffer.remaining()];
        buffer.get(written);
        return written;
    }
}
