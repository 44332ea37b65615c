const HERE = import.meta.url; // bundlers would take new URL(address, import.meta.url) for a file

/** Return the bytes of a file by its address. */
async function read(address) {
  const url = new URL(address, HERE);
  if (url.protocol === "file:" && globalThis.process?.versions?.node) {
    // not import(): bundlers for browsers would look for the module
    const { readFile } = process.getBuiltinModule("node:fs/promises");
    return readFile(url);
  }
  return body(await fetch(url));
}

function body(response) {
  if (!response.ok) {
    throw new Error(`${response.url}: the server answered ${response.status}`);
  }
  return response.arrayBuffer();
}

/**
 * Load the network: from the .wasm file of the same name next to this one, or from another address,
 * a Response of fetch(), bytes or a WebAssembly.Module.
 */
export async function load(source = FILE) {
  if (typeof source === "string" || source instanceof URL) {
    return start(await read(source));
  }
  const isResponse = typeof Response !== "undefined" && source instanceof Response;
  return start(isResponse ? await body(source) : source);
}

export { Network };
