import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.BaseRecords;

/** Whether what SCHEMAS read is what *JsonConverter printed of the *Data class: two decoders, one value. */
final class Agreement {
    private static final String SIZE_OF_RECORDS = "sizeinbytes";

    private Agreement() {
    }

    static boolean on(Type type, Object value, JsonNode node) {
        if (node == null || value == null) {
            return node != null && node.isNull() && value == null;
        }
        if (type instanceof Schema schema) {
            return onStruct(schema, (Struct) value, node);
        }
        if (type.isArray()) {
            return onArray(type.arrayElementType().orElseThrow(), (Object[]) value, node);
        }
        return onPrimitive(value, node);
    }

    private static boolean onStruct(Schema schema, Struct struct, JsonNode node) {
        Map<String, JsonNode> nodes = byPlainName(node);
        int seen = 0;
        for (BoundField bound : schema.fields()) {
            Object value = struct.get(bound);
            if (bound.def.type instanceof TaggedFields tagged) {
                for (Map.Entry<Integer, Field> known : tagged.fields().entrySet()) {
                    if (((Map<?, ?>) value).containsKey(known.getKey())) {
                        Object content = ((Map<?, ?>) value).get(known.getKey());
                        if (!onField(known.getValue(), content, nodes)) {
                            return false;
                        }
                        seen++;
                    }
                }
            } else if (onField(bound.def, value, nodes)) {
                seen++;
            } else {
                return false;
            }
        }
        return seen == nodes.size();
    }

    private static boolean onField(Field field, Object value, Map<String, JsonNode> nodes) {
        String name = plain(field.name);
        return on(field.type, value, nodes.getOrDefault(name, nodes.get(name + SIZE_OF_RECORDS)));
    }

    private static boolean onArray(Type element, Object[] values, JsonNode node) {
        if (!node.isArray() || node.size() != values.length) {
            return false;
        }
        for (int index = 0; index < values.length; index++) {
            if (!on(element, values[index], node.get(index))) {
                return false;
            }
        }
        return true;
    }

    private static boolean onPrimitive(Object value, JsonNode node) {
        if (value instanceof BaseRecords records) {
            return node.isInt() && node.intValue() == records.sizeInBytes();
        }
        if (value instanceof ByteBuffer bytes) {
            return bytes.equals(ByteBuffer.wrap(binary(node)));
        }
        if (value instanceof Double number) {
            return number.equals(node.doubleValue());
        }
        if (value instanceof Number number) {
            return node.isIntegralNumber() && number.longValue() == node.longValue();
        }
        return value.toString().equals(node.asText());
    }

    private static byte[] binary(JsonNode node) {
        try {
            return node.binaryValue();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Map<String, JsonNode> byPlainName(JsonNode node) {
        Map<String, JsonNode> nodes = new HashMap<>();
        node.properties().forEach(entry -> nodes.put(plain(entry.getKey()), entry.getValue()));
        return nodes;
    }

    /** SCHEMAS have names in snake case, the JSON in camel case. */
    private static String plain(String name) {
        return name.replace("_", "").toLowerCase(Locale.ROOT);
    }
}
