// A client that writes a key log: sends each frame, and waits for its response.
// Arguments: address, CA file, key log, TLS version or "plain", then the frames in hexadecimal.
const fs = require("node:fs");
const net = require("node:net");
const tls = require("node:tls");

const [address, ca, keyLog, version, ...frames] = process.argv.slice(2);
const [host, port] = address.split(":");

const connection = version === "plain" ? net.connect({ host, port }, sendNext) : connectOverTls();
connection.on("error", (error) => { throw error; });

function connectOverTls() {
  const limits = { minVersion: `TLSv${version}`, maxVersion: `TLSv${version}` };
  const made = tls.connect({ host, port, ca: fs.readFileSync(ca), ...limits }, sendNext);
  made.on("keylog", (line) => fs.appendFileSync(keyLog, line, { mode: 0o600 }));
  return made;
}

let received = Buffer.alloc(0);
connection.on("data", (data) => {
  received = Buffer.concat([received, data]);
  if (received.length >= 4 && received.length >= 4 + received.readUInt32BE(0)) {
    received = received.subarray(4 + received.readUInt32BE(0));
    sendNext();
  }
});

function sendNext() {
  if (frames.length === 0) {
    connection.end();
    return;
  }
  const frame = Buffer.from(frames.shift(), "hex");
  const prefix = Buffer.alloc(4);
  prefix.writeUInt32BE(frame.length);
  connection.write(Buffer.concat([prefix, frame]));
}
