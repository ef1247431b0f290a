// Holds custom resources against the schemas of their definitions: a JSON list of objects on standard input, a line for each
// fault on standard output. The folder of modules is the argument.
import { pathToFileURL } from "node:url";
import { readFileSync } from "node:fs";

const modules = pathToFileURL(process.argv[2] + "/node_modules/");
const packages = {
  "keda.sh/v1alpha1": "@kubernetes-models/keda",
  "monitoring.coreos.com/v1": "@kubernetes-models/prometheus-operator",
  "gateway.networking.k8s.io/v1": "@kubernetes-models/gateway-api",
};

for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const name = `${object.kind} ${object.metadata.name}`;
  const home = packages[object.apiVersion];
  if (!home) {
    console.log(`${name}: no schema of ${object.apiVersion}`);
    continue;
  }
  try {
    const { [object.kind]: Kind } = await import(new URL(`${home}/${object.apiVersion}/${object.kind}.js`, modules));
    new Kind(object).validate();
  } catch (error) {
    console.log(`${name}: ${error.message}`);
  }
}
