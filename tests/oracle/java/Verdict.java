import java.util.HexFormat;

/** What Kafka makes of the bytes of a message; without JSON where it refuses them, for the reason given. */
record Verdict(int read, byte[] written, String json, boolean agreed, String reason) {
    Verdict(int read, byte[] written, String json, boolean agreed) {
        this(read, written, json, agreed, "");
    }

    static Verdict refused(Throwable cause) {
        return new Verdict(0, new byte[0], "", true, String.valueOf(cause).replaceAll("\\s+", " "));
    }

    /** The fields of a line, parted by tabs, which neither hex nor JSON contains. */
    String line() {
        String hex = HexFormat.of().formatHex(written);
        return String.join("\t", String.valueOf(read), hex, String.valueOf(agreed), json, reason);
    }
}
