// Runs a network in Node: node run_network.mjs LOADER FOLDER [DIMS]
// FOLDER/job.json has {inputs: [[name, array type, file]]}; outputs are written as out<i> there.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [loader, folder, dims = "{}"] = process.argv.slice(2);
const { load } = await import(pathToFileURL(loader));
const net = await load();
const job = JSON.parse(readFileSync(join(folder, "job.json")));
const inputs = {};
for (const [name, type, file] of job.inputs) {
  inputs[name] = new globalThis[type](new Uint8Array(readFileSync(join(folder, file))).buffer);
}
const outputs = net.run(inputs, JSON.parse(dims));
Object.values(outputs).forEach((array, i) => writeFileSync(join(folder, `out${i}`), array));
console.log(JSON.stringify(Object.keys(outputs)));
const start = performance.now();
let runs = 0;
while (job.seconds && performance.now() - start < 1000 * job.seconds) {
  net.run(inputs, JSON.parse(dims));
  runs++;
}
if (runs) console.error((performance.now() - start) / runs);
