const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, bfloat16: Uint16Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
  bool: Uint8Array,
};

function count(shape) {
  return shape.reduce((product, extent) => product * extent, 1);
}

function describe(tensor) {
  return `${tensor.name}: ${ARRAYS[tensor.dtype].name} of shape [${tensor.shape.join(", ")}]`;
}

/** Return the object, or throw a TypeError unless it has these keys and no others. */
function checkKeys(object, keys, what, example) {
  if (object === null || typeof object !== "object" || ArrayBuffer.isView(object)) {
    throw new TypeError(`run() needs an object of ${what}s: {${example}}`);
  }
  for (const key of Object.keys(object)) {
    if (!keys.includes(key)) {
      throw new TypeError(`there is no ${what} ${key}; run() needs {${example}}`);
    }
  }
  for (const key of keys) {
    if (object[key] === undefined) {
      throw new TypeError(`the ${what} ${key} is missing; run() needs {${example}}`);
    }
  }
  return object;
}

/** A loaded network with its own memory; load() makes it. */
class Network {
  #exports;
  #bytes;

  constructor(exports) {
    this.#exports = exports;
    this.#bytes = exports.memory.buffer;
    exports._initialize?.();
  }

  /** Inputs: name, dtype and shape. */
  get inputs() {
    return structuredClone(NETWORK.inputs);
  }

  /** Outputs: name, dtype and shape. */
  get outputs() {
    return structuredClone(NETWORK.outputs);
  }

  /** Dynamic dimensions: name, minimum and maximum. */
  get dims() {
    return structuredClone(NETWORK.dims);
  }

  /**
   * Run the network once; return new typed arrays by the outputs' names.
   *
   * `inputs` has a typed array for each input, in row-major order; `dims` has the size of each
   * dynamic dimension. Throws a TypeError or a RangeError that names the input or the dimension.
   */
  run(inputs, dims = {}) {
    const names = NETWORK.inputs.map((tensor) => tensor.name);
    checkKeys(inputs, names, "input", NETWORK.inputs.map(describe).join(", "));
    const shapes = this.#shapes(dims);
    NETWORK.inputs.forEach((tensor, i) => this.#set(i, tensor, shapes[i], inputs[tensor.name]));
    const code = this.#exports.run();
    if (code !== 0) {
      throw new Error(`the network failed with code ${code}: an operand has an invalid value`);
    }
    const offset = NETWORK.inputs.length;
    return Object.fromEntries(
      NETWORK.outputs.map((tensor, i) => {
        const shape = shapes[offset + i];
        return [tensor.name, this.#view(offset + i, tensor, count(shape)).slice()];
      }),
    );
  }

  /** Return the state of a network with state to that before its first run. */
  reset() {
    this.#exports.reset?.();
  }

  #view(i, tensor, length) {
    return new ARRAYS[tensor.dtype](this.#bytes, this.#exports.tensor(i), length);
  }

  #set(i, tensor, shape, value) {
    const type = ARRAYS[tensor.dtype];
    if (!ArrayBuffer.isView(value) || value.constructor.name !== type.name) {
      const given = value?.constructor?.name ?? String(value);
      throw new TypeError(`the input ${tensor.name} is ${given}; pass a ${type.name}`);
    }
    const length = count(shape);
    if (value.length !== length) {
      throw new RangeError(
        `the input ${tensor.name} has ${value.length} elements; ` +
          `its shape [${shape.join(", ")}] has ${length}`,
      );
    }
    this.#view(i, tensor, length).set(value);
  }

  /** Return the shapes of inputs and outputs, with numbers in place of dynamic dimensions. */
  #shapes(dims) {
    const tensors = [...NETWORK.inputs, ...NETWORK.outputs];
    const names = NETWORK.dims.map((dim) => dim.name);
    const bounds = NETWORK.dims.map((dim) => `${dim.name}: ${dim.min} to ${dim.max}`).join(", ");
    checkKeys(dims, names, "dimension", bounds);
    if (names.length === 0) {
      return tensors.map((tensor) => tensor.shape);
    }
    const sizes = new Int32Array(this.#bytes, this.#exports.dims(), names.length);
    NETWORK.dims.forEach(({ name, min, max }, i) => {
      const type = dims[name] === null ? "null" : `a ${typeof dims[name]}`;
      if (type !== "a number") {
        throw new TypeError(`the dimension ${name} is ${type}; pass a number, ${min} to ${max}`);
      }
      if (!Number.isInteger(dims[name]) || dims[name] < min || dims[name] > max) {
        throw new RangeError(`the dimension ${name} is ${dims[name]}; pass ${min} to ${max}`);
      }
      sizes[i] = dims[name];
    });
    const ranks = tensors.map((tensor) => tensor.shape.length);
    const total = ranks.reduce((sum, rank) => sum + rank, 0);
    const found = [...new Int32Array(this.#bytes, this.#exports.shapes(), total)];
    return ranks.map((rank) => found.splice(0, rank));
  }
}

async function start(module) {
  const compiled =
    module instanceof WebAssembly.Module ? module : await WebAssembly.compile(module);
  const { exports } = await WebAssembly.instantiate(compiled, {});
  return new Network(exports);
}
