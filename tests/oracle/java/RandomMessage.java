import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

/** Random values for every field of a schema, most of them not the default, and the bytes they make. */
final class RandomMessage {
    private static final String[] LETTERS =
        {"a", "Z", "0", "-", "\t", "\"", "\\", "\u00e9", "\u4e2d", "\ud83d\ude00"};
    /** Above every tag that a schema of Kafka has. */
    private static final int FIRST_FOREIGN_TAG = 10_000;

    private final Random random;

    RandomMessage(long seed) {
        this.random = new Random(seed);
    }

    byte[] of(Schema schema) {
        Struct struct = struct(schema, 3);
        ByteBuffer buffer = ByteBuffer.allocate(schema.sizeOf(struct));
        schema.write(buffer, struct);
        return buffer.array();
    }

    private Struct struct(Schema schema, int longest) {
        Struct struct = new Struct(schema);
        for (BoundField bound : schema.fields()) {
            Type type = bound.def.type;
            boolean isTags = type instanceof TaggedFields;
            struct.set(bound, isTags ? tags((TaggedFields) type, longest) : value(type, longest));
        }
        return struct;
    }

    private Map<Integer, Object> tags(TaggedFields tagged, int longest) {
        TreeMap<Integer, Object> tags = new TreeMap<>();
        for (Map.Entry<Integer, Field> known : tagged.fields().entrySet()) {
            if (random.nextInt(3) > 0) {
                tags.put(known.getKey(), value(known.getValue().type, longest));
            }
        }
        if (random.nextInt(8) == 0) {
            int tag = FIRST_FOREIGN_TAG + random.nextInt(1 << (1 + random.nextInt(29)));
            tags.put(tag, new RawTaggedField(tag, bytes()));
        }
        return tags;
    }

    /** @param longest the most elements of an array; within it one less, so that values stay small */
    private Object value(Type type, int longest) {
        if (type.isNullable() && random.nextInt(4) == 0) {
            return null;
        }
        if (type instanceof Schema schema) {
            return struct(schema, longest);
        }
        if (type.isArray()) {
            Type element = type.arrayElementType().orElseThrow();
            Object[] elements = new Object[random.nextInt(longest + 1)];
            for (int index = 0; index < elements.length; index++) {
                elements[index] = value(element, Math.max(1, longest - 1));
            }
            return elements;
        }
        return primitive(type);
    }

    private Object primitive(Type type) {
        String name = type.toString().replaceAll("COMPACT_|NULLABLE_", "");
        return switch (name) {
            case "BOOLEAN" -> random.nextBoolean();
            case "INT8" -> (byte) number();
            case "INT16" -> (short) number();
            case "UINT16" -> (int) number() & 0xFFFF;
            case "INT32" -> (int) number();
            case "UINT32" -> number() & 0xFFFFFFFFL;
            case "INT64" -> number();
            case "FLOAT64" -> random.nextGaussian() * Math.pow(10, random.nextInt(600) - 300);
            case "UUID" -> new Uuid(random.nextLong(), random.nextLong());
            case "STRING" -> text();
            case "BYTES" -> ByteBuffer.wrap(bytes());
            case "RECORDS" -> MemoryRecords.readableRecords(ByteBuffer.wrap(bytes()));
            default -> throw new IllegalStateException("a type of no known name: " + name);
        };
    }

    /** Of any size: as many numbers of few bits as of many. */
    private long number() {
        return random.nextLong() >> random.nextInt(64);
    }

    private String text() {
        StringBuilder text = new StringBuilder();
        for (int left = length(); left > 0; left--) {
            text.append(LETTERS[random.nextInt(LETTERS.length)]);
        }
        return text.toString();
    }

    private byte[] bytes() {
        byte[] bytes = new byte[length()];
        random.nextBytes(bytes);
        return bytes;
    }

    /** Short, but now and then one that takes two bytes of a varint. */
    private int length() {
        return random.nextInt(50) == 0 ? 120 + random.nextInt(200) : random.nextInt(9);
    }
}
