// Browsers refuse workers to pages that are opened as files. There, the search's worker runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      this.ready = new Promise((resolve) => {
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow;
          // What the worker sends reaches the page, and not the frame's own listeners.
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.addEventListener("load", () => resolve(inside));
          script.src = new URL(address, location.href);
          inside.document.head.append(script);
        }, { once: true });
      });
      document.documentElement.append(frame);
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {}
  };
}
