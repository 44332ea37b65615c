// Search in pages opened from a folder: there browsers start no worker from a file, only from text.
if (location.protocol === "file:") {
  const source = new Blob([TVMRT_WORKER], { type: "text/javascript" });
  globalThis.Worker = class extends Worker {
    constructor() {
      super(URL.createObjectURL(source));
    }
  };
}
